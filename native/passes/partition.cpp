#include "passes/partition.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "columns/groups.h"
#include "columns/order.h"

namespace sightline {

namespace {

struct Interval {
    int64_t start, end;
    size_t class_;
};

// The intervals of each group's window, cut to it. The numbers of the groups are those of windows.
std::vector<std::vector<Interval>> inside(const Keys& intervals, const Keys& windows,
                                          Groups& groups, const std::vector<int64_t>& window_of,
                                          size_t classes) {
    const size_t width = windows.columns.size() - 2;
    const int64_t* class_ = intervals.columns[width + 2];
    std::vector<std::vector<Interval>> found(static_cast<size_t>(windows.rows));
    for (size_t i = 0; i < static_cast<size_t>(intervals.rows); ++i) {
        if (class_[i] < 0 || class_[i] >= static_cast<int64_t>(classes)) continue;
        const int64_t group = groups.of(intervals, i, false);
        if (group == Groups::kNone) continue;
        const auto window = static_cast<size_t>(window_of[static_cast<size_t>(group)]);
        const int64_t start = std::max(intervals.columns[width][i], windows.columns[width][window]);
        const int64_t end =
            std::min(intervals.columns[width + 1][i], windows.columns[width + 1][window]);
        if (start < end) found[window].push_back({start, end, static_cast<size_t>(class_[i])});
    }
    for (auto& own : found) {
        merge_sort(own.data(), own.data() + own.size(),
                   [](const Interval& a, const Interval& b) { return a.start < b.start; });
    }
    return found;
}

}  // namespace

Batch partition(const Keys& intervals, const Keys& windows, size_t classes) {
    if (windows.columns.size() < 2 || intervals.columns.size() != windows.columns.size() + 1) {
        throw std::invalid_argument("columns are missing");
    }
    const size_t width = windows.columns.size() - 2;
    const auto count = static_cast<size_t>(windows.rows);
    Groups groups(width);
    std::vector<int64_t> window_of;
    for (size_t i = 0; i < count; ++i) {
        const int64_t group = groups.of(windows, i, true);
        if (group == static_cast<int64_t>(window_of.size())) {
            window_of.push_back(static_cast<int64_t>(i));
        }
    }
    const auto found = inside(intervals, windows, groups, window_of, classes);
    // What is covered by a class and those before it, less what those before it cover, is its own.
    std::vector<std::vector<int64_t>> parts(classes + 1, std::vector<int64_t>(count));
    for (size_t i = 0; i < count; ++i) {
        std::vector<int64_t> reach(classes, windows.columns[width][i]);
        std::vector<int64_t> covered(classes, 0);
        int64_t idle = 0;
        for (const Interval& one : found[i]) {
            if (classes > 0) idle += std::max<int64_t>(0, one.start - reach.back());
            for (size_t c = one.class_; c < classes; ++c) {
                covered[c] += std::max<int64_t>(0, one.end - std::max(one.start, reach[c]));
                reach[c] = std::max(reach[c], one.end);
            }
        }
        const int64_t last = classes > 0 ? reach.back() : windows.columns[width][i];
        parts[classes][i] = idle + windows.columns[width + 1][i] - last;
        for (size_t c = 0; c < classes; ++c) {
            parts[c][i] = covered[c] - (c > 0 ? covered[c - 1] : 0);
        }
    }
    Batch batch;
    batch.rows = windows.rows;
    for (size_t c = 0; c < classes; ++c) {
        const std::string name = "part_" + std::to_string(c);
        batch.columns.push_back(numbers_column(name.c_str(), std::move(parts[c])));
    }
    batch.columns.push_back(numbers_column("idle", std::move(parts[classes])));
    return batch;
}

}  // namespace sightline
