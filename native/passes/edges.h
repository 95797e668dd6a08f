// Puts the nodes of a dependency graph in order and resolves its edges (replay/graph.py).
#pragma once

#include "columns/arrow.h"
#include "columns/keys.h"

namespace sightline {

// Nodes have the columns moment, turn and uid, by which they are put in order; prev, prev_lag,
// launch, launch_lag, wait and wait_lag, an edge being the uid of another node and a least time;
// start and end. `stretch`: uids are dense from each multiple of it on.
//
// Of each node in order: the row that it was in; prev, launch and wait as places in the order, null
// where there is no such node before; and residual, the time from the latest of the three moments
// to its start.
Batch edges(const NumberColumns& nodes, int64_t stretch);

}  // namespace sightline
