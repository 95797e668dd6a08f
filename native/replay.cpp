#include "replay.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <vector>

namespace sightline {

namespace {

constexpr int64_t kNever = -(int64_t{1} << 62);

// Times of a damaged recording may lie anywhere: a sum that is too large wraps around.
int64_t plus(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

struct Meeting {
    int64_t latest = kNever;
    std::vector<int64_t> members;
};

std::shared_ptr<BatchColumn> column(const char* name, std::vector<int64_t> values, int64_t rows) {
    auto made = std::make_shared<std::vector<int64_t>>(std::move(values));
    made->resize(static_cast<size_t>(rows));
    auto column = std::make_shared<BatchColumn>();
    column->name = name;
    column->format = "l";
    column->data = made->data();
    column->values = std::move(made);
    return column;
}

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
    batch.columns = {column("start_ns", std::move(start), n), column("end_ns", std::move(end), n)};
    return batch;
}

}  // namespace sightline
