// Searches sorted moments from a place where the answer is thought to be near.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sightline {

// How many of the items, sorted by their `time`, are not after `at`. Searched from `near` outwards,
// as questions mostly come in order of time.
template <typename Item>
size_t until(const std::vector<Item>& items, int64_t at, size_t near) {
    size_t low = near, high = near, step = 1;
    while (low > 0 && items[low - 1].time > at) {
        high = low - 1;
        low = low > step ? low - step : 0;
        step *= 2;
    }
    step = 1;
    while (high < items.size() && items[high].time <= at) {
        low = high + 1;
        high = std::min(high + step, items.size());
        step *= 2;
    }
    const auto first = items.begin() + static_cast<std::ptrdiff_t>(low);
    const auto last = items.begin() + static_cast<std::ptrdiff_t>(high);
    const auto found = std::upper_bound(
        first, last, at, [](int64_t time, const Item& item) { return time < item.time; });
    return static_cast<size_t>(found - items.begin());
}

}  // namespace sightline
