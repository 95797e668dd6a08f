// A sort for rows that mostly are in order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sightline {

// Sorts by a strict order of all items. Few rising runs, as tables put behind each other have, are
// merged; many are sorted as usual.
template <typename Item, typename Before>
void sort_runs(std::vector<Item>& items, Before before) {
    constexpr size_t kMostRuns = 256;
    std::vector<size_t> edges{0};
    for (size_t i = 1; i < items.size() && edges.size() <= kMostRuns; ++i) {
        if (before(items[i], items[i - 1])) edges.push_back(i);
    }
    if (edges.size() > kMostRuns) {
        std::sort(items.begin(), items.end(), before);
        return;
    }
    edges.push_back(items.size());
    const auto at = [&](size_t edge) {
        return items.begin() + static_cast<std::ptrdiff_t>(edges[edge]);
    };
    for (size_t step = 1; step + 1 < edges.size(); step *= 2) {
        for (size_t i = 0; i + step + 1 < edges.size(); i += 2 * step) {
            const size_t end = std::min(i + 2 * step, edges.size() - 1);
            std::inplace_merge(at(i), at(i + step), at(end), before);
        }
    }
}

}  // namespace sightline
