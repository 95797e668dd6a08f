// Sorts rows by times that are in no order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "columns/numbers.h"

namespace sightline {

// Whether rows are in no order: the way from time to time leads across a good part of the whole
// span again and again. What is near its place, or in some orders one after another, is not.
inline bool is_shuffled(const int64_t* times, size_t rows) {
    double low = 0, high = 0, last = 0, way = 0;
    bool any = false;
    for (size_t row = 0; row < rows; ++row) {
        if (times[row] == kNull) continue;
        const auto now = static_cast<double>(times[row]);
        if (!any) low = high = last = now;
        any = true;
        way += now < last ? last - now : now - last;
        low = std::min(low, now);
        high = std::max(high, now);
        last = now;
    }
    return way > static_cast<double>(rows) / 64 * (high - low);
}

// The rows in order of their times, equal ones as they come; those without a time come first.
// By digits, lowest first: a run of seconds in ns has three or four, each a pass over all rows.
inline std::vector<uint32_t> in_order_of(const int64_t* times, size_t rows) {
    constexpr int kBits = 11;
    constexpr size_t kDigits = size_t{1} << kBits;
    struct Item {
        uint64_t key;
        uint32_t row;
    };
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (size_t row = 0; row < rows; ++row) {
        if (times[row] == kNull) continue;
        low = std::min(low, times[row]);
        high = std::max(high, times[row]);
    }
    // From the first one on, which leaves the fewest digits. A missing time is before it.
    const uint64_t base = static_cast<uint64_t>(low) - 1;
    const uint64_t most = high < low ? 0 : static_cast<uint64_t>(high) - base;
    std::vector<Item> items(rows), sorted(rows);
    for (size_t row = 0; row < rows; ++row) {
        items[row] = {times[row] == kNull ? 0 : static_cast<uint64_t>(times[row]) - base,
                      static_cast<uint32_t>(row)};
    }
    for (int shift = 0; shift < 64 && (most >> shift) != 0; shift += kBits) {
        std::array<size_t, kDigits> place{};
        for (const Item& item : items) ++place[(item.key >> shift) & (kDigits - 1)];
        size_t sum = 0;
        for (size_t& one : place) sum += std::exchange(one, sum);
        for (const Item& item : items) sorted[place[(item.key >> shift) & (kDigits - 1)]++] = item;
        items.swap(sorted);
    }
    std::vector<uint32_t> found(rows);
    for (size_t i = 0; i < rows; ++i) found[i] = items[i].row;
    return found;
}

}  // namespace sightline
