// Finds a row by a number that it carries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "columns/order.h"

namespace sightline {

// The first row with each number. Numbers mostly count up, so there is a place for each from the
// lowest to the highest, unless they are far apart: memory stays in proportion to the rows.
class Places {
public:
    void expect(int64_t number) {
        low_ = std::min(low_, number);
        high_ = std::max(high_, number);
        ++count_;
    }

    // To be called once, when all numbers are expected.
    void make_room() {
        const uint64_t holes = static_cast<uint64_t>(high_) - static_cast<uint64_t>(low_);
        if (count_ > 0 && holes / kMostHoles < count_) places_.assign(holes + 1, kNoRow);
    }

    void put(int64_t number, uint32_t row) {
        if (places_.empty()) {
            scattered_.emplace(number, row);
        } else if (uint32_t& place = places_[place_of(number)]; place == kNoRow) {
            place = row;
        }
    }

    // kNoRow where there is none.
    uint32_t of(int64_t number) const {
        if (number < low_ || number > high_) return kNoRow;
        if (!places_.empty()) return places_[place_of(number)];
        const auto found = scattered_.find(number);
        return found == scattered_.end() ? kNoRow : found->second;
    }

private:
    static constexpr uint64_t kMostHoles = 8;  // places for each row, at most

    size_t place_of(int64_t number) const {
        return static_cast<size_t>(static_cast<uint64_t>(number) - static_cast<uint64_t>(low_));
    }

    int64_t low_ = INT64_MAX;
    int64_t high_ = INT64_MIN;
    uint64_t count_ = 0;
    std::vector<uint32_t> places_;
    std::unordered_map<int64_t, uint32_t> scattered_;
};

}  // namespace sightline
