// Tables that a trace of Perfetto's becomes, before clocks are joined and slices are closed.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "columns/arrow.h"
#include "columns/numbers.h"
#include "columns/packed.h"

namespace sightline::perfetto {

// Rows of numbers. A text is its code in the dictionary, a real number its bits; kNull is none.
class Rows {
public:
    explicit Rows(std::vector<const char*> names) : names_(std::move(names)), columns_(names_.size()) {}

    template <size_t N>
    void append(const std::array<int64_t, N>& row) {
        static_assert(N > 0);
        for (size_t i = 0; i < N && i < columns_.size(); ++i) columns_[i].append(row[i]);
        ++rows_;
    }
    size_t rows() const { return rows_; }

    // All rows; they are given away once.
    Batch take();

private:
    std::vector<const char*> names_;
    std::vector<Packed> columns_;
    size_t rows_ = 0;
};

inline int64_t bits_of(double value) {
    if (value == 0) return 0;  // the bits of -0.0 stand for null
    int64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

}  // namespace sightline::perfetto
