// Lines of text that are written after a pattern, as columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "columns/arrow.h"
#include "columns/dictionary.h"

namespace sightline {

// What a field may hold. None but `any` is empty, and `any` is not kept.
enum class FieldKind : uint8_t {
    integer,  // 1 to 18 digits, as a number
    word,     // letters, digits and underscores of ASCII
    number,   // characters that numbers are written with, Inf and NaN too
    cell,     // neither a comma nor a blank at either end
    text,     // whatever stands before the next literal
    free,     // whatever stands before a place from which the rest of the pattern fits
    any,      // the same
};

// A literal, and the field behind it; the last one of a pattern may have a literal alone.
struct LinePart {
    std::string literal;
    std::string name;
    FieldKind kind = FieldKind::any;
    bool has_field = true;
};

// Reads lines that as a whole follow a pattern. What else there is stays as it is: lines that follow
// none, and those with what is no printable ASCII, since only Python knows where it would break
// them.
class LineTables {
public:
    explicit LineTables(std::vector<std::vector<LinePart>> patterns);

    void read(std::string_view data);

    size_t patterns() const { return tables_.size(); }

    // Of the lines of one pattern `line`, counted from 0, and a column for each field: numbers, or
    // the row in the field's texts.
    Batch take(size_t pattern);
    // The names of its fields with texts, and their different texts.
    std::vector<std::string> text_fields(size_t pattern) const;
    Batch texts(size_t pattern, size_t field) const;

    // `line` and `text` of all other lines that are not blank, as bytes.
    Batch rest();

private:
    struct Field {
        std::string name;
        FieldKind kind = FieldKind::any;
        std::vector<int64_t> numbers;
        std::vector<uint32_t> codes;
        Dictionary texts;
        std::string_view last;
    };
    struct Table {
        std::vector<LinePart> parts;
        std::vector<Field> fields;  // of the parts that are kept, in their order
        std::vector<size_t> field_of;  // of each part
        std::vector<int64_t> lines;
    };

    bool fits(const Table& table, size_t part, std::string_view line, size_t at);
    bool fits_text(const Table& table, size_t part, std::string_view line, size_t at);
    void keep(Table& table, int64_t number);

    std::vector<Table> tables_;
    std::vector<std::string_view> found_;  // what stands in each part of the line
    size_t tries_ = 0;
    std::vector<int64_t> rest_lines_;
    std::vector<std::string_view> rest_;
};

}  // namespace sightline
