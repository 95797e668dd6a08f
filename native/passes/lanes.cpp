#include "passes/lanes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "columns/groups.h"
#include "columns/order.h"

namespace sightline {

namespace {

enum Column : size_t { kTrack, kLevel, kStart, kEnd };

struct Event {
    int64_t start;
    int64_t end;
    uint32_t row;
};

// A level of a track.
struct Line {
    int64_t track;
    int64_t level;
    std::vector<Event> events;
};

std::vector<Line> list_lines(const Keys& given) {
    std::vector<Line> lines;
    Groups groups(kLevel + 1, true);
    for (size_t row = 0; row < static_cast<size_t>(given.rows); ++row) {
        const auto at = static_cast<size_t>(groups.of(given, row, true));
        if (at == lines.size()) {
            lines.push_back({given.columns[kTrack][row], given.columns[kLevel][row], {}});
        }
        lines[at].events.push_back({given.columns[kStart][row], given.columns[kEnd][row],
                                    static_cast<uint32_t>(row)});
    }
    std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
        return a.track != b.track ? a.track < b.track : a.level < b.level;
    });
    return lines;
}

// Until when each lane of a line is busy, as a tree of minima: the first free one is found in as
// many steps as the tree is deep, however many events overlap.
class Busy {
public:
    // The first lane that is free at `start`, or a new one; it is busy `until` then.
    uint32_t take(int64_t start, int64_t until) {
        if (least_[1] > start) {
            if (count_ == room_) grow();
            set(count_, until);
            return count_++;
        }
        size_t node = 1;
        while (node < room_) node = least_[2 * node] <= start ? 2 * node : 2 * node + 1;
        const auto lane = static_cast<uint32_t>(node - room_);
        set(lane, until);
        return lane;
    }

    uint32_t count() const { return count_; }

private:
    void set(uint32_t lane, int64_t until) {
        size_t node = room_ + lane;
        least_[node] = until;
        while ((node /= 2) != 0) least_[node] = std::min(least_[2 * node], least_[2 * node + 1]);
    }

    void grow() {
        const std::vector<int64_t> known(least_.begin() + static_cast<std::ptrdiff_t>(room_),
                                         least_.end());
        room_ *= 2;
        least_.assign(2 * room_, kMaxInt);
        for (uint32_t lane = 0; lane < count_; ++lane) set(lane, known[lane]);
    }

    uint32_t count_ = 0;
    size_t room_ = 1;
    std::vector<int64_t> least_ = {kMaxInt, kMaxInt};  // a node's children are at twice its place
};

}  // namespace

Batch lanes(const Keys& events) {
    if (events.columns.size() != kEnd + 1) throw std::invalid_argument("columns are missing");
    if (events.rows >= static_cast<int64_t>(kNoRow)) throw std::length_error("too many events");
    std::vector<Line> lines = list_lines(events);
    std::vector<uint32_t> rows;
    std::vector<int32_t> lane;
    rows.reserve(static_cast<size_t>(events.rows));
    lane.reserve(static_cast<size_t>(events.rows));
    std::vector<std::vector<uint32_t>> above;  // rows of each lane of a line but its first
    int32_t first = 0;
    for (size_t at = 0; at < lines.size(); ++at) {
        std::vector<Event> mine = std::move(lines[at].events);
        merge_sort(mine.data(), mine.data() + mine.size(), [](const Event& a, const Event& b) {
            return a.start != b.start ? a.start < b.start : a.end > b.end;
        });
        if (at > 0 && lines[at].track != lines[at - 1].track) first = 0;
        Busy busy;
        above.clear();
        for (const Event& event : mine) {
            const uint32_t place =
                busy.take(event.start, std::max(event.end, plus(event.start, 1)));
            if (place == 0) {
                rows.push_back(event.row);
                continue;
            }
            if (above.size() < place) above.resize(place);
            above[place - 1].push_back(event.row);
        }
        lane.resize(rows.size(), first);
        for (const std::vector<uint32_t>& more : above) {
            rows.insert(rows.end(), more.begin(), more.end());
            lane.resize(rows.size(), ++first);
        }
        ++first;
    }
    Batch batch;
    batch.rows = events.rows;
    batch.columns = {rows_column("row", std::move(rows)), numbers_column("lane", std::move(lane))};
    return batch;
}

}  // namespace sightline
