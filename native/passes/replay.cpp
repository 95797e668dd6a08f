#include "passes/replay.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <vector>

namespace sightline {

namespace {

constexpr int64_t kNever = -(int64_t{1} << 62);

struct Member {
    size_t node;
    int64_t lag;
};

struct Meeting {
    int64_t latest = kNever;
    std::vector<Member> members;
};

}  // namespace

Batch replay(const NumberColumns& nodes) {
    enum Column : size_t { kStart, kEnd, kEdges, kResidual = kEdges + 6, kMeeting, kMeetingLag };
    const auto n = static_cast<size_t>(nodes.rows);
    std::vector<int64_t> start(n), end(n);
    std::unordered_map<int64_t, Meeting> meetings;
    for (size_t i = 0; i < n; ++i) {
        const auto value = [&](size_t column) { return nodes.columns[column][i]; };
        int64_t begin = kNull;
        const auto follow = [&](size_t column, const std::vector<int64_t>& times) {
            const int64_t to = value(column), lag = value(column + 1);
            if (to == kNull) return;
            if (to < 0 || to >= nodes.rows) throw std::out_of_range("an edge leads to no node");
            begin = std::max(begin, plus(times[static_cast<size_t>(to)], lag == kNull ? 0 : lag));
        };
        follow(kEdges, end);
        follow(kEdges + 2, start);
        follow(kEdges + 4, end);
        begin = plus(begin == kNull ? 0 : begin, value(kResidual));
        start[i] = begin;
        end[i] = plus(begin, minus(value(kEnd), value(kStart)));
        if (value(kMeeting) == kNull) continue;
        // All members end after the last of them has begun.
        Meeting& met = meetings[value(kMeeting)];
        met.members.push_back({i, value(kMeetingLag)});
        met.latest = std::max(met.latest, begin);
        for (const Member& member : met.members) {
            end[member.node] = plus(met.latest, member.lag == kNull ? 0 : member.lag);
        }
    }
    Batch batch;
    batch.rows = nodes.rows;
    batch.columns = {numbers_column("start_ns", std::move(start)),
                     numbers_column("end_ns", std::move(end))};
    return batch;
}

}  // namespace sightline
