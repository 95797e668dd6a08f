#include "passes/replay.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <vector>

namespace sightline {

namespace {

constexpr int64_t kNever = -(int64_t{1} << 62);

struct Meeting {
    int64_t latest = kNever;
    std::vector<int64_t> members;
};

}  // namespace

Batch replay(const Keys& nodes) {
    const int64_t n = nodes.rows;
    const int64_t* was_start = nodes.columns.at(0);
    const int64_t* was_end = nodes.columns.at(1);
    const int64_t* residual = nodes.columns.at(8);
    const int64_t* meeting = nodes.columns.at(9);
    const int64_t* meeting_lag = nodes.columns.at(10);
    std::vector<int64_t> start(static_cast<size_t>(n), 0);
    std::vector<int64_t> end = start;
    std::unordered_map<int64_t, Meeting> meetings;
    for (int64_t i = 0; i < n; ++i) {
        int64_t begin = kNull;
        const auto follow = [&](size_t column, const std::vector<int64_t>& times) {
            const int64_t to = nodes.columns[column][i], lag = nodes.columns[column + 1][i];
            if (to == kNull) return;
            if (to < 0 || to >= n) throw std::out_of_range("an edge leads to no node");
            begin = std::max(begin, plus(times[static_cast<size_t>(to)], lag == kNull ? 0 : lag));
        };
        follow(2, end);
        follow(4, start);
        follow(6, end);
        begin = plus(begin == kNull ? 0 : begin, residual[i]);
        start[static_cast<size_t>(i)] = begin;
        end[static_cast<size_t>(i)] = plus(begin, minus(was_end[i], was_start[i]));
        if (meeting[i] == kNull) continue;
        // All members end after the last of them has begun.
        Meeting& met = meetings[meeting[i]];
        met.members.push_back(i);
        met.latest = std::max(met.latest, begin);
        for (const int64_t member : met.members) {
            const int64_t lag = meeting_lag[member];
            end[static_cast<size_t>(member)] = plus(met.latest, lag == kNull ? 0 : lag);
        }
    }
    Batch batch;
    batch.rows = n;
    batch.columns = {numbers_column("start_ns", std::move(start)),
                     numbers_column("end_ns", std::move(end))};
    return batch;
}

}  // namespace sightline
