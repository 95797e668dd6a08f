// Walks through a dependency graph: the critical path, and slack (timeline/path.py).
#pragma once

#include <cstdint>

#include "columns/arrow.h"
#include "columns/keys.h"

namespace sightline {

// The path back from a node, from `end` to `begin`. Nodes have the columns start; last, of a
// meeting's members the one that came last, else the node itself; before, the node that it waited
// for longest, or kNull; at, the moment of that; residual, what of its start nothing explains.
//
// Pieces from the last to the first: start, end, node and step, a PathStep. Throws
// std::out_of_range where an edge leads to no node, std::runtime_error where they form a circle.
enum class PathStep : int64_t { meeting = 0, own = 1, rest = 2, edge = 3, beginning = 4 };
Batch path(const Keys& nodes, int64_t node, int64_t begin, int64_t end);

// How much later each node could end without making the last operation's end later, or null.
// Nodes are in order and have the columns start, end, is_op, residual, meeting (a number from 0, or
// less), prev, prev_lag, launch, launch_lag, wait and wait_lag, an edge being a node or kNull.
Batch slack(const Keys& nodes);

}  // namespace sightline
