// The integer columns of a SQLite table, read on several cores straight into Arrow columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "columns/arrow.h"

namespace sightline {

struct Constant {
    size_t column;
    std::optional<int64_t> value;  // absent for null
};

// A column that has one value in all rows is not in the batch but among the constants; the others
// are named by their number.
struct Integers {
    Batch varying;
    std::vector<Constant> constants;
};

// A column of the rows themselves: their numbers.
constexpr int kRowid = -1;

// Which values of a table are wanted: their places in a row, in the order of CREATE TABLE, or kRowid.
struct Wanted {
    uint32_t root = 0;  // the table's root page
    std::vector<int> columns;
    int alias = -1;  // the place of an INTEGER PRIMARY KEY, which is stored as null
};

// All rows, in order of rowid. Nothing where the file is damaged, where a value is neither integer
// nor null, or where rows lack columns (they were added later, and may have a default).
std::optional<Integers> integers_of(const std::string& path, const Wanted& wanted,
                                    unsigned threads);

}  // namespace sightline
