#include "passes/replay.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "columns/keys.h"

namespace sightline {

namespace {

constexpr int64_t kNever = -(int64_t{1} << 62);

struct Meeting {
    int64_t latest = kNever;
    std::vector<int64_t> members;
};

}  // namespace

Batch replay(const Graph& graph) {
    const int64_t n = graph.rows;
    std::vector<int64_t> start(static_cast<size_t>(n) + 2, 0);
    start[static_cast<size_t>(n)] = kNever;
    std::vector<int64_t> end = start;
    const auto at = [n](const std::vector<int64_t>& times, int64_t node) {
        if (node < 0 || node > n + 1) throw std::out_of_range("an edge leads to no node");
        return times[static_cast<size_t>(node)];
    };
    std::unordered_map<int64_t, Meeting> meetings;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t begin = std::max({plus(at(end, graph.prev[i]), graph.prev_lag[i]),
                                        plus(at(start, graph.launch[i]), graph.launch_lag[i]),
                                        plus(at(end, graph.wait[i]), graph.wait_lag[i])});
        start[static_cast<size_t>(i)] = begin;
        end[static_cast<size_t>(i)] = plus(begin, graph.length[i]);
        if (graph.meeting[i] < 0) continue;
        // All members end after the last of them has begun.
        Meeting& met = meetings[graph.meeting[i]];
        met.members.push_back(i);
        met.latest = std::max(met.latest, begin);
        for (const int64_t member : met.members) {
            end[static_cast<size_t>(member)] = plus(met.latest, graph.meeting_lag[member]);
        }
    }
    Batch batch;
    batch.rows = n;
    // Without the node that never happens, and the one at time 0.
    start.resize(static_cast<size_t>(n));
    end.resize(static_cast<size_t>(n));
    batch.columns = {numbers_column("start_ns", std::move(start)),
                     numbers_column("end_ns", std::move(end))};
    return batch;
}

}  // namespace sightline
