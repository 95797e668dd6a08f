// A JSON value, and the rules by which it becomes a number or a text of a table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "columns/numbers.h"

namespace sightline {

// Numbers with a point or an exponent, NaN and Infinity are texts: their digits are what counts.
enum class Kind : uint8_t { absent, null, yes, no, integer, text, composite };

struct Token {
    Kind kind = Kind::absent;
    std::string_view text;

    bool is(std::string_view wanted) const { return kind == Kind::text && text == wanted; }
};

// An integer that fits int64, from an integer or from a text of fewer than 19 digits; else kNull.
int64_t integer_of(const Token& token);

// A process, thread or stream number; 'stream 7' gives 7, another text a number of its own.
Read id_of(const Token& token, int64_t& id);

// A time in µs as ns; `none` where it is missing or no number.
Read ns_of(const Token& token, int64_t& ns);

// The value as text, for a column of texts; `none` stands for null, `odd` for a list or object.
Read text_of(const Token& token, std::string_view& text);

}  // namespace sightline
