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
        same_ = same_ && value == first_;
        ++rows_;
        open_.push_back(value);
        if (open_.size() == kChunk) seal();
    }

    size_t rows() const { return rows_; }

    // The value of all rows where there is but one; nothing for a column without rows.
    std::optional<int64_t> constant() const;

    // All rows, in order.
    std::vector<int64_t> values() const;

private:
    static constexpr size_t kChunk = 4096;

    struct Chunk {
        int64_t lowest = 0;
        uint8_t width = 0;    // bytes a row: 0, 1, 2, 4 or 8
        bool nulls = false;   // then a row's number is one more than its distance, or 0
        std::unique_ptr<uint8_t[]> bytes;
    };

    void seal();

    std::vector<Chunk> chunks_;
    std::vector<int64_t> open_;  // the rows that are not in a chunk yet
    size_t rows_ = 0;
    int64_t first_ = 0;
    bool same_ = true;
};

}  // namespace sightline
