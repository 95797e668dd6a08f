#include "passes/cover.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "columns/groups.h"
#include "columns/order.h"
#include "columns/radix.h"
#include "columns/search.h"

namespace sightline {

namespace {

// Once merged: what no other one touches, and how much lies in it and in those before it.
struct Interval {
    int64_t time;
    int64_t end;
    int64_t sum;
};

std::vector<std::vector<Interval>> by_group(const Keys& rows, size_t width, Groups& groups) {
    std::vector<std::vector<Interval>> found;
    const int64_t* start = rows.columns[width];
    const int64_t* end = rows.columns[width + 1];
    for_rows(rows, width, [&](size_t row) {
        if (start[row] == kNull || end[row] == kNull) return;
        const int64_t group = groups.of(rows, row, true);
        if (group == Groups::kNone) return;
        if (static_cast<size_t>(group) == found.size()) {
            found.emplace_back();
            if (width == 0) found.back().reserve(static_cast<size_t>(rows.rows));
        }
        found[static_cast<size_t>(group)].push_back({start[row], end[row], 0});
    });
    return found;
}

void merge(std::vector<Interval>& intervals) {
    merge_sort(intervals.data(), intervals.data() + intervals.size(),
               [](const Interval& a, const Interval& b) { return a.time < b.time; });
    size_t last = 0;
    for (size_t i = 1; i < intervals.size(); ++i) {
        if (intervals[i].time > intervals[last].end) {
            intervals[++last] = intervals[i];
        } else {
            intervals[last].end = std::max(intervals[last].end, intervals[i].end);
        }
    }
    intervals.resize(last + 1);
    int64_t sum = 0;
    for (Interval& one : intervals) one.sum = sum = plus(sum, minus(one.end, one.time));
}

// How much of a group's intervals lies before a moment. `near` is where the last answer was.
int64_t before(const std::vector<Interval>& merged, int64_t at, size_t& near) {
    near = until(merged, at, near);
    if (near == 0) return 0;
    // The last one that has begun counts up to the moment only.
    const Interval& last = merged[near - 1];
    return last.end > at ? minus(last.sum, minus(last.end, at)) : last.sum;
}

}  // namespace

Batch cover(const Keys& intervals, const Keys& queries) {
    const size_t width = intervals.columns.size() - 2;
    Groups groups(width);
    auto merged = by_group(intervals, width, groups);
    for (auto& group : merged) merge(group);
    std::vector<int64_t> covered(static_cast<size_t>(queries.rows), 0);
    std::vector<std::vector<size_t>> near(queries.columns.size(),
                                          std::vector<size_t>(merged.size(), 0));
    for_rows(queries, width, [&](size_t i) {
        const int64_t group = groups.of(queries, i, false);
        if (group == Groups::kNone) return;
        const auto place = static_cast<size_t>(group);
        for (size_t c = width; c < queries.columns.size(); ++c) {
            const int64_t at = queries.columns[c][i];
            const int64_t now = at == kNull ? 0 : before(merged[place], at, near[c][place]);
            covered[i] = minus(now, covered[i]);
        }
    });
    Batch batch;
    batch.rows = queries.rows;
    batch.columns = {numbers_column("covered", std::move(covered))};
    return batch;
}

}  // namespace sightline
