// The input of a pass: columns of integers that Python owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "columns/numbers.h"

namespace sightline {

// Times of a damaged recording may lie anywhere: what is too large wraps around.
inline int64_t plus(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t minus(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

// Columns of `rows` numbers each; kNull stands for a missing one.
struct Keys {
    int64_t rows = 0;
    std::vector<const int64_t*> columns;
};

// A column as Python has it: int64, rows of a frame as uint32, or null throughout; null is kNull.
struct NumberColumn {
    const int64_t* numbers = nullptr;
    const uint32_t* rows = nullptr;
    const uint8_t* valid = nullptr;  // one bit a row, where some are null
    size_t first_bit = 0;            // of row 0

    int64_t operator[](size_t row) const {
        if (valid != nullptr) {
            const size_t bit = first_bit + row;
            if ((valid[bit / 8] >> (bit % 8) & 1) == 0) return kNull;
        }
        if (numbers != nullptr) return numbers[row];
        return rows != nullptr ? static_cast<int64_t>(rows[row]) : kNull;
    }
};

// Columns of `rows` rows each, read where they lie: a copy without nulls takes longer than a pass.
struct NumberColumns {
    int64_t rows = 0;
    std::vector<NumberColumn> columns;
};

}  // namespace sightline
