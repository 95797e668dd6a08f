// Parses integers, times and floats from their digits.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace sightline {

// Missing values are null in the tables; no value of a recording can be this one.
constexpr int64_t kNull = std::numeric_limits<int64_t>::min();
constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

// What became of a text that should be a number. `odd` is one that only Python's rules can judge:
// blanks around it, underscores, digits of other scripts.
enum class Read : uint8_t { ok, none, odd };

bool is_ascii(std::string_view text);
bool is_digits(std::string_view text);

// Whether the text is a number as JSON writes it; `whole` tells whether it is an integer.
bool is_json_number(std::string_view text, bool& whole);

// An integer that fits int64, or kNull.
int64_t to_int(std::string_view digits);

// Decimal microseconds as integer nanoseconds, rounded half to even; no float is involved.
Read microseconds_to_ns(std::string_view text, int64_t& ns);

// The nearest float64 of a decimal number or of NaN, Infinity and -Infinity.
Read to_double(std::string_view text, double& value);

}  // namespace sightline
