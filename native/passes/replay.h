// Computes when each node of a dependency graph starts and ends, in one pass (replay/replay.py).
#pragma once

#include <cstdint>

#include "columns/arrow.h"
#include "columns/keys.h"

namespace sightline {

// Nodes are in order and have the columns start, end, prev, prev_lag, launch, launch_lag, wait,
// wait_lag, residual, meeting (a number from 0) and meeting_lag. An edge is an earlier node; it, a
// lag or a meeting may be kNull. A node starts `residual` after the latest of its edges, or, with
// none, after time 0, and is as long as it was; all members of a meeting end their lags after the
// last of them has begun.
//
// Columns start_ns and end_ns. Throws std::out_of_range where an edge leads nowhere.
Batch replay(const NumberColumns& nodes);

}  // namespace sightline
