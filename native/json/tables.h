// Values of a JSON document as columns, in one pass over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "columns/arrow.h"
#include "columns/dictionary.h"
#include "json/walk.h"

namespace sightline {

// How a value becomes a cell. What is of another type is null.
enum class CellKind : uint8_t {
    integer,   // a number without point and exponent that fits 64 bits
    decimal,   // any number, as the nearest float
    text,      // its code in the texts
    length,    // of a list: how many items it has
    integers,  // a list: its items in a table of their own, each as an integer
};

struct WantedCell {
    std::string name;
    std::vector<std::string> path;  // within the row; none for the row's own value
    CellKind kind = CellKind::integer;
};

// A row for each value that the path leads to: keys, "[]" for all items of a list, "[3]" for one.
struct WantedTable {
    std::vector<std::string> path;
    std::vector<WantedCell> cells;
};

class JsonTables {
public:
    // Raises std::invalid_argument where a path cannot be.
    explicit JsonTables(const std::vector<WantedTable>& wanted);

    // False where the document is damaged, or has what only Python judges as it always did: keys
    // that come twice, numbers beyond JSON, texts that are no Unicode. Then no table is whole.
    bool read(std::string_view data);

    // `parent`, the row of the table around this one (null if there is none), and the cells.
    Batch take(size_t table);
    // Of cells of kind `integers`: of how many items each row has, null where it is no list, and the
    // items of all.
    Batch lengths(size_t table, size_t cell);
    Batch items(size_t table, size_t cell);
    Batch texts() const;

private:
    static constexpr size_t kNone = SIZE_MAX;
    static constexpr size_t kMostKeys = 64;  // bits of those that were seen

    struct Cell {
        std::string name;
        CellKind kind = CellKind::integer;
        std::vector<int64_t> numbers;  // lengths, where it is a list of integers
        std::vector<double> decimals;
        std::vector<int64_t> items;
    };
    struct Table {
        std::vector<Cell> cells;
        std::vector<int64_t> parents;
        int64_t rows() const { return static_cast<int64_t>(parents.size()); }
    };
    // A place in documents: what is wanted of the value there, and the places in it.
    struct Place {
        std::vector<std::pair<std::string, std::unique_ptr<Place>>> keys;
        std::vector<std::pair<size_t, std::unique_ptr<Place>>> at;  // items by their number
        std::unique_ptr<Place> items;
        size_t table = kNone;   // of which the value is a row
        size_t within = kNone;  // the table of the row that it is in
        std::vector<std::pair<size_t, size_t>> cells;
    };

    static Place& step(Place& place, const std::string& name);
    void start_row(const Place& place);
    bool visit(od::value value, const Place& place);
    bool visit_object(od::object object, const Place& place);
    bool visit_list(od::array array, const Place& place);
    void set(const Place& place, const Token& token, bool is_text);

    std::vector<Table> tables_;
    Place root_;
    Dictionary texts_;
};

}  // namespace sightline
