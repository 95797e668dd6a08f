// Sorts rows by times where they are in no order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "columns/keys.h"
#include "columns/numbers.h"

namespace sightline {

// Whether rows are in no order, as some thousand of them tell: the way from time to time leads
// across a good part of the whole span again and again. It does not where rows are near their
// places, or in a few orders one after another.
inline bool is_shuffled(const int64_t* times, size_t rows) {
    const size_t step = rows / 4096 + 1;
    double low = 0, high = 0, last = 0, way = 0, seen = 0;
    for (size_t row = 0; row < rows; row += step) {
        if (times[row] == kNull) continue;
        const auto now = static_cast<double>(times[row]);
        if (seen++ == 0) low = high = last = now;
        way += now < last ? last - now : now - last;
        low = std::min(low, now);
        high = std::max(high, now);
        last = now;
    }
    return way > seen / 16 * (high - low);
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

// Calls `act` with every row; in order of time if the rows are in none, since what is near in time
// is near in memory, too. Column `at` has the time.
template <typename Act>
void for_rows(const Keys& keys, size_t at, Act act) {
    constexpr size_t kAhead = 16;  // rows whose loads from memory are under way at a time
    const auto rows = static_cast<size_t>(keys.rows);
    if (rows > UINT32_MAX || !is_shuffled(keys.columns[at], rows)) {
        for (size_t row = 0; row < rows; ++row) act(row);
        return;
    }
    const std::vector<uint32_t> order = in_order_of(keys.columns[at], rows);
    for (size_t i = 0; i < rows; ++i) {
        if (i + kAhead < rows) {
            const uint32_t later = order[i + kAhead];
            for (const int64_t* column : keys.columns) __builtin_prefetch(column + later);
        }
        act(order[i]);
    }
}

}  // namespace sightline
