// Searches sorted moments from a place where the answer is thought to be near.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sightline {

// How many of so many moments, in order, are not after `at`; `time` gives each. Searched from `near`
// outwards, as questions mostly come in order of time.
template <typename Time>
size_t until(size_t count, Time time, int64_t at, size_t near) {
    size_t low = near, high = near, step = 1;
    while (low > 0 && time(low - 1) > at) {
        high = low - 1;
        low = low > step ? low - step : 0;
        step *= 2;
    }
    step = 1;
    while (high < count && time(high) <= at) {
        low = high + 1;
        high = std::min(high + step, count);
        step *= 2;
    }
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (time(middle) <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// The same of items that have a `time`.
template <typename Item>
size_t until(const std::vector<Item>& items, int64_t at, size_t near) {
    return until(items.size(), [&](size_t i) { return items[i].time; }, at, near);
}

}  // namespace sightline
