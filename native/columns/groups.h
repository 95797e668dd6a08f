// Numbers the groups of rows: rows whose first columns are equal are one group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "columns/keys.h"

namespace sightline {

// Counts groups from 0 in order of their first row. The first `width` columns tell them apart.
class Groups {
public:
    static constexpr int64_t kNone = -1;

    // Where missing values are `known`, they are equal to each other.
    explicit Groups(size_t width, bool known = false)
        : width_(width), missing_known_(known), slots_(64, kNone) {}

    // The number of a row's group; kNone where a column is missing, or the group is new and not
    // to be `added`.
    int64_t of(const Keys& keys, size_t row, bool added) {
        for (size_t c = 0; c < width_ && !missing_known_; ++c) {
            if (keys.columns[c][row] == kNull) return kNone;
        }
        // Rows of one group mostly follow each other.
        if (last_ != kNone && is(last_, keys, row)) return last_;
        const size_t slot = slot_of(keys, row);
        if (slots_[slot] == kNone) {
            if (!added) return kNone;
            for (size_t c = 0; c < width_; ++c) values_.push_back(keys.columns[c][row]);
            last_ = slots_[slot] = count_++;
            if (2 * static_cast<size_t>(count_) > slots_.size()) grow();
            return last_;
        }
        return last_ = slots_[slot];
    }

private:
    bool is(int64_t group, const Keys& keys, size_t row) const {
        const int64_t* own = values_.data() + static_cast<size_t>(group) * width_;
        for (size_t c = 0; c < width_; ++c) {
            if (own[c] != keys.columns[c][row]) return false;
        }
        return true;
    }

    static uint64_t mixed(uint64_t hash, int64_t value) {
        hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15ULL;
        return hash ^ (hash >> 32);
    }

    // The first slot that is free or of which `found` says so; `value` gives the group's numbers.
    template <typename Value, typename Found>
    size_t probe(Value value, Found found) const {
        uint64_t hash = 0;
        for (size_t c = 0; c < width_; ++c) hash = mixed(hash, value(c));
        size_t slot = hash & (slots_.size() - 1);
        while (slots_[slot] != kNone && !found(slots_[slot])) {
            slot = (slot + 1) & (slots_.size() - 1);
        }
        return slot;
    }

    // Where the row's group is, or would be put.
    size_t slot_of(const Keys& keys, size_t row) const {
        return probe([&](size_t c) { return keys.columns[c][row]; },
                     [&](int64_t group) { return is(group, keys, row); });
    }

    void grow() {
        slots_.assign(slots_.size() * 2, kNone);
        for (int64_t group = 0; group < count_; ++group) {
            const int64_t* own = values_.data() + static_cast<size_t>(group) * width_;
            slots_[probe([&](size_t c) { return own[c]; }, [](int64_t) { return false; })] = group;
        }
    }

    size_t width_;
    bool missing_known_;
    int64_t count_ = 0;
    int64_t last_ = kNone;
    std::vector<int64_t> values_;  // `width_` numbers a group
    std::vector<int64_t> slots_;   // open addressing, a power of two of them
};

}  // namespace sightline
