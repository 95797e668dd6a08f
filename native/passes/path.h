// Walks through a dependency graph: the critical path, and slack (replay/critical_path.py).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "columns/arrow.h"
#include "columns/keys.h"

namespace sightline {

// The path back from a node, from `end` to `begin`. Nodes have the columns start, end, prev,
// prev_lag, launch, launch_lag, wait, wait_lag, guess, residual (what of its start nothing explains)
// and meeting, a number or kNull; an edge is a node or kNull.
//
// A node waited for what came last: the edge that arrives last, of equal ones a wait, then a launch;
// or its guess, where that ended later and before the node began, and explains all but `guess_lag`
// ns of what is between them. A member of a meeting waited for the one that came last to it.
//
// Pieces from the last to the first: start, end, node and step, a PathStep. Throws
// std::out_of_range where an edge leads to no node, std::runtime_error where they form a circle.
enum class PathStep : int64_t { meeting, own, rest, beginning, prev, launch, wait, guess };
Batch path(const NumberColumns& nodes, int64_t node, int64_t begin, int64_t end,
           int64_t guess_lag);

// How much of the path are pieces of each name: `name`, and ns. A name is the number in a twelfth
// column, the node's sort, times the number of steps, and the step. Of the names that are `kept`
// the pieces themselves are the second batch: start, end and node. Pieces are cut at `begin`.
constexpr int64_t kPathSteps = 8;
std::pair<Batch, Batch> sum_path(const NumberColumns& nodes, int64_t node, int64_t begin,
                                 int64_t end, int64_t guess_lag, const std::vector<int64_t>& kept);

// How much later each node could end without making the last operation's end later, or null.
// Nodes are in order and have the columns start, end, is_op, residual, meeting (a number from 0, or
// less), prev, prev_lag, launch, launch_lag, wait and wait_lag, an edge being a node or kNull.
Batch slack(const Keys& nodes);

}  // namespace sightline
