#include "columns/numbers.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace sightline {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The length of the run of digits at `from`.
size_t digits_at(std::string_view text, size_t from) {
    size_t end = from;
    while (end < text.size() && is_digit(text[end])) ++end;
    return end - from;
}

// A decimal number in parts: digits without leading zeros, times ten to the power of `exponent`.
struct Decimal {
    std::string_view whole;
    std::string_view fraction;
    int exponent = 0;
    bool negative = false;
};

Read split(std::string_view text, Decimal& out) {
    size_t at = 0;
    if (at < text.size() && text[at] == '-') {
        out.negative = true;
        ++at;
    }
    const size_t whole = digits_at(text, at);
    if (whole == 0) return Read::odd;
    out.whole = text.substr(at, whole);
    at += whole;
    if (at < text.size() && text[at] == '.') {
        const size_t fraction = digits_at(text, at + 1);
        if (fraction == 0) return Read::odd;
        out.fraction = text.substr(at + 1, fraction);
        at += 1 + fraction;
    }
    if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
        ++at;
        const bool minus = at < text.size() && text[at] == '-';
        if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
        const size_t length = digits_at(text, at);
        if (length == 0 || length > 5) return Read::odd;
        for (size_t i = 0; i < length; ++i) out.exponent = out.exponent * 10 + (text[at + i] - '0');
        if (minus) out.exponent = -out.exponent;
        at += length;
    }
    // Texts with many leading zeros are left to the one place that has always judged them.
    if (at != text.size() || (out.whole.size() > 16 && out.whole[0] == '0')) return Read::odd;
    return Read::ok;
}

}  // namespace

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

bool is_digits(std::string_view text) {
    return !text.empty() && digits_at(text, 0) == text.size();
}

bool is_json_number(std::string_view text, bool& whole) {
    size_t at = (!text.empty() && text[0] == '-') ? 1 : 0;
    const size_t length = digits_at(text, at);
    if (length == 0 || (length > 1 && text[at] == '0')) return false;
    at += length;
    whole = at == text.size();
    if (at < text.size() && text[at] == '.') {
        const size_t fraction = digits_at(text, at + 1);
        if (fraction == 0) return false;
        at += 1 + fraction;
    }
    if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
        ++at;
        if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
        const size_t exponent = digits_at(text, at);
        if (exponent == 0) return false;
        at += exponent;
    }
    return at == text.size();
}

int64_t to_int(std::string_view digits) {
    int64_t value = 0;
    const auto end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    return error == std::errc() && stop == end ? value : kNull;
}

Read microseconds_to_ns(std::string_view text, int64_t& ns) {
    Decimal number;
    const Read read = split(text, number);
    if (read != Read::ok) return read;
    // The digits as one row, of which the first `point` stand before the decimal point in ns.
    const size_t total = number.whole.size() + number.fraction.size();
    const auto digit = [&](int64_t i) -> unsigned {
        const auto at = static_cast<size_t>(i);
        if (i < 0 || at >= total) return 0;
        const size_t length = number.whole.size();
        return static_cast<unsigned>((at < length ? number.whole[at] : number.fraction[at - length]) -
                                     '0');
    };
    const int64_t point = static_cast<int64_t>(number.whole.size()) + number.exponent + 3;
    int64_t first = 0;  // the first digit that is not zero
    while (first < static_cast<int64_t>(total) && digit(first) == 0) ++first;
    if (first == static_cast<int64_t>(total)) {
        ns = 0;
        return Read::ok;
    }
    if (point - first > 19) return Read::none;
    uint64_t whole = 0;
    for (int64_t i = first; i < point; ++i) whole = whole * 10 + digit(i);
    bool beyond_half = false;  // digits behind the first one of the rest
    bool any_rest = false;
    const unsigned next = point >= 0 ? digit(point) : 0;
    for (int64_t i = std::max<int64_t>(point, 0); i < static_cast<int64_t>(total); ++i) {
        if (digit(i) == 0) continue;
        any_rest = true;
        if (i > point) beyond_half = true;
    }
    constexpr auto limit = static_cast<uint64_t>(kMaxInt);
    if (whole > limit || (whole == limit && any_rest)) return Read::none;
    if (next > 5 || (next == 5 && (beyond_half || (whole & 1) == 1))) ++whole;
    const auto value = static_cast<int64_t>(whole);
    ns = number.negative ? -value : value;
    return Read::ok;
}

Read to_double(std::string_view text, double& value) {
    if (text == "NaN" || text == "nan") {
        value = std::numeric_limits<double>::quiet_NaN();
        return Read::ok;
    }
    if (text == "Infinity" || text == "inf") {
        value = std::numeric_limits<double>::infinity();
        return Read::ok;
    }
    if (text == "-Infinity" || text == "-inf") {
        value = -std::numeric_limits<double>::infinity();
        return Read::ok;
    }
    bool whole = false;
    if (is_json_number(text, whole)) {
        const auto end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        return error == std::errc() && stop == end ? Read::ok : Read::odd;
    }
    // Texts in which no number can hide: they start with a letter that no number starts with.
    const char c = text.empty() ? 'x' : static_cast<char>(text[0] | 0x20);
    if (text.empty() || (c >= 'a' && c <= 'z' && c != 'i' && c != 'n')) return Read::none;
    return Read::odd;
}

}  // namespace sightline
