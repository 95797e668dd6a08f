// Lines, folded stacks and JSON, split into columns.
#include "bindings/bind.h"

#include "json/tables.h"
#include "stacks/folded.h"
#include "text/lines.h"

namespace sightline {

namespace {

// A literal, the name of the field behind it and its kind; no kind where there is no field.
using GivenPart = std::tuple<std::string, std::string, std::string>;

std::vector<std::vector<LinePart>> patterns_of(
    const std::vector<std::vector<GivenPart>>& given) {
    static const std::unordered_map<std::string, FieldKind> kinds{
        {"int", FieldKind::integer}, {"word", FieldKind::word}, {"number", FieldKind::number},
        {"cell", FieldKind::cell},   {"text", FieldKind::text}, {"free", FieldKind::free},
        {"any", FieldKind::any}};
    std::vector<std::vector<LinePart>> patterns;
    for (const auto& parts : given) {
        patterns.emplace_back();
        for (const auto& [literal, name, kind] : parts) {
            patterns.back().push_back(
                {literal, name, kind.empty() ? FieldKind::any : kinds.at(kind), !kind.empty()});
        }
    }
    return patterns;
}

// Of each pattern its lines' columns, and the texts of each field that has some; all other lines.
nb::tuple split_lines(const nb::bytes& data, const std::vector<std::vector<GivenPart>>& given) {
    LineTables tables(patterns_of(given));
    {
        const nb::gil_scoped_release release;
        tables.read({data.c_str(), data.size()});
    }
    nb::list found;
    for (size_t i = 0; i < tables.patterns(); ++i) {
        nb::dict texts;
        const std::vector<std::string> names = tables.text_fields(i);
        for (size_t k = 0; k < names.size(); ++k) {
            texts[nb::cast(names[k])] = nb::cast(tables.texts(i, k));
        }
        found.append(nb::make_tuple(nb::cast(tables.take(i)), texts));
    }
    return nb::make_tuple(found, nb::cast(tables.rest()));
}

// Lines and their frames as columns, the texts of frames, and all other lines.
nb::tuple split_folded(const nb::bytes& data) {
    FoldedText text;
    {
        const nb::gil_scoped_release release;
        text.read({data.c_str(), data.size()});
    }
    nb::list rest;
    for (const std::string_view line : text.rest()) rest.append(nb::bytes(line.data(), line.size()));
    return nb::make_tuple(nb::cast(text.lines()), nb::cast(text.frames()), nb::cast(text.texts()),
                          rest);
}

// A table's path, and of each cell its name, path and kind.
using GivenCell = std::tuple<std::string, std::vector<std::string>, std::string>;
using GivenRows = std::pair<std::vector<std::string>, std::vector<GivenCell>>;

// Of each table its columns, and lengths and items of its lists; the texts. None where the document
// is left to Python.
nb::object read_json(const nb::bytes& data, const std::vector<GivenRows>& given) {
    static const std::unordered_map<std::string, CellKind> kinds{
        {"int", CellKind::integer}, {"float", CellKind::decimal}, {"text", CellKind::text},
        {"length", CellKind::length}, {"ints", CellKind::integers}};
    std::vector<WantedTable> wanted;
    for (const auto& [path, cells] : given) {
        wanted.push_back({path, {}});
        for (const auto& [name, place, kind] : cells) {
            wanted.back().cells.push_back({name, place, kinds.at(kind)});
        }
    }
    JsonTables tables(wanted);
    {
        const nb::gil_scoped_release release;
        if (!tables.read({data.c_str(), data.size()})) wanted.clear();
    }
    if (wanted.size() != given.size()) return nb::none();
    nb::list found;
    for (size_t i = 0; i < wanted.size(); ++i) {
        nb::dict lists;
        for (size_t k = 0; k < wanted[i].cells.size(); ++k) {
            const WantedCell& cell = wanted[i].cells[k];
            if (cell.kind != CellKind::integers) continue;
            lists[nb::cast(cell.name)] =
                nb::make_tuple(nb::cast(tables.lengths(i, k)), nb::cast(tables.items(i, k)));
        }
        found.append(nb::make_tuple(nb::cast(tables.take(i)), lists));
    }
    return nb::make_tuple(found, nb::cast(tables.texts()));
}

}  // namespace

void bind_texts(nb::module_& m) {
    m.def("split_lines", &split_lines, "data"_a, "patterns"_a);
    m.def("read_json", &read_json, "data"_a, "tables"_a);
    m.def("split_folded", &split_folded, "data"_a);
}

}  // namespace sightline
