// Computes when each node of a dependency graph starts and ends, in one pass (timeline/replay.py).
#pragma once

#include <cstdint>

#include "columns/arrow.h"

namespace sightline {

// The graph's columns, of `rows` numbers each. An edge is the number of a node; `rows` stands for
// a node that never happens, `rows` + 1 for one at time 0. A meeting is a number from 0, or less
// where the node takes part in none.
struct Graph {
    int64_t rows = 0;
    const int64_t* prev = nullptr;
    const int64_t* prev_lag = nullptr;
    const int64_t* launch = nullptr;
    const int64_t* launch_lag = nullptr;
    const int64_t* wait = nullptr;
    const int64_t* wait_lag = nullptr;
    const int64_t* length = nullptr;
    const int64_t* meeting = nullptr;
    const int64_t* meeting_lag = nullptr;
};

// Columns start_ns and end_ns. Throws std::out_of_range where an edge leads nowhere.
Batch replay(const Graph& graph);

}  // namespace sightline
