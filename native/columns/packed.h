// A column of numbers that takes few bytes a row while it grows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sightline {

// Rows are kept in chunks, each with its lowest number and, for each row, the distance to it in as
// few bytes as the chunk needs; a chunk of one value takes none. Recorded columns mostly repeat or
// count up, so that a row takes one to four bytes instead of eight. kNull stands for no number.
class Packed {
public:
    void append(int64_t value) {
        if (rows_ == 0) first_ = value;
        ++rows_;
        if (same_) {
            if (value == first_) return;
            make_up();
        }
        open_.push_back(value);
        if (open_.size() == kChunk) seal();
    }

    size_t rows() const { return rows_; }

    // The value of all rows where there is but one; nothing for a column without rows.
    std::optional<int64_t> constant() const;

    // Bytes of the narrowest signed integers that hold every number and, as their lowest, null.
    size_t width() const;

    // All rows, in order, in integers of that width or more; null is the type's lowest.
    template <typename Number>
    std::vector<Number> values() const;

    // The value of one row.
    int64_t at(size_t row) const;

private:
    static constexpr size_t kChunk = 4096;

    struct Chunk {
        int64_t lowest = 0;
        uint8_t width = 0;    // bytes a row: 0, 1, 2, 4 or 8
        bool nulls = false;   // then a row's number is one more than its distance, or 0
        std::unique_ptr<uint8_t[]> bytes;
    };

    void seal();
    // Writes down the rows of one value that were counted only, all but the last.
    void make_up();

    std::vector<Chunk> chunks_;
    std::vector<int64_t> open_;  // the rows that are not in a chunk yet
    size_t rows_ = 0;
    int64_t first_ = 0;
    int64_t lowest_ = INT64_MAX, highest_ = INT64_MIN;  // of the numbers in chunks
    bool same_ = true;  // then there is nothing but the first value and a count
};

}  // namespace sightline
