// The input of a pass: columns of integers that Python owns.
#pragma once

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

}  // namespace sightline
