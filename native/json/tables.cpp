#include "json/tables.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "columns/numbers.h"
#include "columns/texts.h"

namespace sightline {

namespace {

// An integer of at most 18 digits that ends where its token does; kNull for what is looked at closely.
int64_t plain_integer(std::string_view raw) {
    int64_t value = 0;
    size_t at = 0;
    for (; at < raw.size() && raw[at] >= '0' && raw[at] <= '9'; ++at) {
        if (at == 18) return kNull;
        value = value * 10 + (raw[at] - '0');
    }
    const bool is_whole = at == 1 || (at > 1 && raw[0] != '0');
    return is_whole && (at == raw.size() || raw[at] == ',' || raw[at] == ']') ? value : kNull;
}

// Missing decimals, until they are taken: no number that JSON can write.
const double kNoDecimal = std::numeric_limits<double>::quiet_NaN();

double finite(std::string_view text) {
    double value = kNoDecimal;
    return to_double(text, value) == Read::ok && std::isfinite(value) ? value : kNoDecimal;
}

std::shared_ptr<BatchColumn> decimals_column(const std::string& name, std::vector<double> values) {
    auto column = std::make_shared<BatchColumn>();
    column->name = name;
    column->format = "g";
    for (size_t row = 0; row < values.size(); ++row) {
        if (values[row] != values[row]) column->set_null(row, values.size());
    }
    auto kept = std::make_shared<std::vector<double>>(std::move(values));
    column->data = kept->data();
    column->values = std::move(kept);
    return column;
}

}  // namespace

JsonTables::JsonTables(const std::vector<WantedTable>& wanted) {
    for (size_t number = 0; number < wanted.size(); ++number) {
        Place* row = &root_;
        for (const std::string& name : wanted[number].path) row = &step(*row, name);
        if (row->table != kNone) throw std::invalid_argument("two tables of the same rows");
        row->table = number;
        Table table;
        for (const WantedCell& cell : wanted[number].cells) {
            Place* place = row;
            for (const std::string& name : cell.path) place = &step(*place, name);
            if (place->keys.size() > kMostKeys) throw std::invalid_argument("too many keys");
            place->cells.emplace_back(number, table.cells.size());
            table.cells.push_back({cell.name, cell.kind, {}, {}, {}});
        }
        tables_.push_back(std::move(table));
    }
    // Rows know the row around them.
    const auto name_outer = [](Place& place, size_t outer, const auto& again) -> void {
        place.within = outer;
        if (place.items != nullptr && !place.at.empty()) {
            throw std::invalid_argument("all items of a list, and some of them");
        }
        const size_t inner = place.table == kNone ? outer : place.table;
        for (auto& [key, below] : place.keys) again(*below, inner, again);
        for (auto& [number, below] : place.at) again(*below, inner, again);
        if (place.items != nullptr) again(*place.items, inner, again);
    };
    name_outer(root_, kNone, name_outer);
}

JsonTables::Place& JsonTables::step(Place& place, const std::string& name) {
    if (name == "[]") {
        if (place.items == nullptr) place.items = std::make_unique<Place>();
        return *place.items;
    }
    if (name.size() > 2 && name.front() == '[' && name.back() == ']') {
        const int64_t number = to_int(std::string_view(name).substr(1, name.size() - 2));
        if (number < 0) throw std::invalid_argument("no number of an item");
        for (auto& [known, below] : place.at) {
            if (known == static_cast<size_t>(number)) return *below;
        }
        place.at.emplace_back(static_cast<size_t>(number), std::make_unique<Place>());
        return *place.at.back().second;
    }
    for (auto& [known, below] : place.keys) {
        if (known == name) return *below;
    }
    place.keys.emplace_back(name, std::make_unique<Place>());
    return *place.keys.back().second;
}

bool JsonTables::read(std::string_view data) {
    const simdjson::padded_string padded(data);
    od::parser parser;
    od::document document;
    od::value value;
    if (parser.iterate(padded).get(document) != simdjson::SUCCESS) return false;
    if (document.get_value().get(value) != simdjson::SUCCESS) return false;
    const char* next = nullptr;
    return visit(value, root_) && document.current_location().get(next) == simdjson::OUT_OF_BOUNDS;
}

void JsonTables::start_row(const Place& place) {
    Table& table = tables_[place.table];
    table.parents.push_back(place.within == kNone ? kNull : tables_[place.within].rows() - 1);
    for (Cell& cell : table.cells) {
        if (cell.kind == CellKind::decimal) {
            cell.decimals.push_back(kNoDecimal);
        } else {
            cell.numbers.push_back(kNull);
        }
    }
}

bool JsonTables::visit(od::value value, const Place& place) {
    if (place.table != kNone) start_row(place);
    const std::string_view raw = value.raw_json_token();
    if (raw.empty()) return false;
    if (raw[0] == '{' && !place.keys.empty()) {
        od::object object;
        return value.get_object().get(object) == simdjson::SUCCESS && visit_object(object, place);
    }
    const bool has_cells = !place.cells.empty();
    if (raw[0] == '[' && (has_cells || place.items != nullptr || !place.at.empty())) {
        od::array array;
        return value.get_array().get(array) == simdjson::SUCCESS && visit_list(array, place);
    }
    Token token;
    if (!read_token(value, token)) return false;
    const char first = raw[0];
    const bool is_text = first == '"';
    if (token.kind == Kind::text && !is_text && first != '-' && (first < '0' || first > '9')) {
        return false;  // NaN and Infinity
    }
    if (token.text == "-Infinity" && !is_text) return false;
    if (has_cells) set(place, token, is_text);
    return true;
}

bool JsonTables::visit_object(od::object object, const Place& place) {
    uint64_t seen = 0;
    size_t likely = 0;
    for (auto item : object) {
        od::field field;
        std::string_view key;
        if (std::move(item).get(field) != simdjson::SUCCESS || !key_of(field, key)) return false;
        // Keys mostly come in the same order.
        const Place* below = nullptr;
        for (size_t i = 0; i < place.keys.size() && below == nullptr; ++i) {
            const size_t at = (likely + i) % place.keys.size();
            if (place.keys[at].first != key) continue;
            if ((seen >> at & 1) != 0) return false;  // of equal keys the last one counts
            seen |= uint64_t{1} << at;
            likely = at + 1;
            below = place.keys[at].second.get();
        }
        Token ignored;
        if (below == nullptr ? !read_token(field.value(), ignored, 1) : !visit(field.value(), *below)) {
            return false;
        }
    }
    return true;
}

bool JsonTables::visit_list(od::array array, const Place& place) {
    std::vector<Cell*> lists;
    for (const auto& [table, cell] : place.cells) {
        Cell& wanted = tables_[table].cells[cell];
        if (wanted.kind == CellKind::integers) lists.push_back(&wanted);
    }
    size_t number = 0, likely = 0;
    for (auto item : array) {
        od::value value;
        if (std::move(item).get(value) != simdjson::SUCCESS) return false;
        const Place* below = place.items.get();
        for (size_t i = 0; i < place.at.size() && below == nullptr; ++i) {
            const size_t at = (likely + i) % place.at.size();
            if (place.at[at].first != number) continue;
            likely = at + 1;
            below = place.at[at].second.get();
        }
        ++number;
        if (below != nullptr) {
            if (!visit(value, *below)) return false;
            continue;
        }
        int64_t found = lists.empty() ? kNull : plain_integer(value.raw_json_token());
        if (found == kNull) {
            Token token;
            if (!read_token(value, token, 1)) return false;
            if (token.kind == Kind::integer) found = to_int(token.text);
        }
        for (Cell* list : lists) list->items.push_back(found);
    }
    for (const auto& [table, cell] : place.cells) {
        Cell& wanted = tables_[table].cells[cell];
        if (wanted.kind == CellKind::length || wanted.kind == CellKind::integers) {
            wanted.numbers.back() = static_cast<int64_t>(number);
        }
    }
    return true;
}

void JsonTables::set(const Place& place, const Token& token, bool is_text) {
    for (const auto& [table, number] : place.cells) {
        Cell& cell = tables_[table].cells[number];
        if (cell.kind == CellKind::text) {
            if (is_text) cell.numbers.back() = texts_.intern(token.text) - 1;
        } else if (cell.kind == CellKind::integer) {
            if (token.kind == Kind::integer) cell.numbers.back() = to_int(token.text);
        } else if (cell.kind == CellKind::decimal && !is_text) {
            const bool is_number = token.kind == Kind::integer || token.kind == Kind::text;
            if (is_number) cell.decimals.back() = finite(token.text);
        }
    }
}

Batch JsonTables::take(size_t number) {
    Table& table = tables_.at(number);
    Batch batch;
    batch.rows = table.rows();
    batch.columns.push_back(numbers_column("parent", table.parents));
    for (Cell& cell : table.cells) {
        if (cell.kind == CellKind::decimal) {
            batch.columns.push_back(decimals_column(cell.name, std::exchange(cell.decimals, {})));
        } else if (cell.kind != CellKind::integers) {
            batch.columns.push_back(numbers_column(cell.name.c_str(), std::exchange(cell.numbers, {})));
        }
    }
    return batch;
}

Batch JsonTables::lengths(size_t table, size_t cell) {
    Batch batch;
    batch.rows = tables_.at(table).rows();
    batch.columns.push_back(
        numbers_column("length", std::exchange(tables_[table].cells.at(cell).numbers, {})));
    return batch;
}

Batch JsonTables::items(size_t table, size_t cell) {
    std::vector<int64_t>& items = tables_.at(table).cells.at(cell).items;
    Batch batch;
    batch.rows = static_cast<int64_t>(items.size());
    batch.columns.push_back(numbers_column("item", std::exchange(items, {})));
    return batch;
}

Batch JsonTables::texts() const { return all_texts(texts_, "vu"); }

}  // namespace sightline
