#include "json/token.h"

#include <zlib.h>

namespace sightline {

int64_t integer_of(const Token& token) {
    if (token.kind == Kind::integer) return to_int(token.text);
    if (token.kind != Kind::text || token.text.empty()) return kNull;
    const std::string_view digits = token.text.substr(token.text[0] == '-' ? 1 : 0);
    return is_digits(digits) && digits.size() < 19 ? to_int(token.text) : kNull;
}

Read id_of(const Token& token, int64_t& id) {
    id = integer_of(token);
    if (id != kNull || token.kind != Kind::text) return Read::ok;
    if (!is_ascii(token.text)) return Read::odd;  // digits of other scripts count in Python
    const size_t blank = token.text.rfind(' ');
    const std::string_view last =
        blank == std::string_view::npos ? token.text : token.text.substr(blank + 1);
    if (is_digits(last) && last.size() < 19) {
        id = to_int(last);
    } else {
        const auto bytes = reinterpret_cast<const Bytef*>(token.text.data());
        id = static_cast<int64_t>(crc32_z(0, bytes, token.text.size()));
    }
    return Read::ok;
}

Read ns_of(const Token& token, int64_t& ns) {
    if (token.kind == Kind::integer) {
        const int64_t us = to_int(token.text);
        if (us == kNull || us > kMaxInt / 1000 || us < -(kMaxInt / 1000)) return Read::none;
        ns = us * 1000;
        return Read::ok;
    }
    return token.kind == Kind::text ? microseconds_to_ns(token.text, ns) : Read::none;
}

Read text_of(const Token& token, std::string_view& text) {
    switch (token.kind) {
        case Kind::absent:
        case Kind::null: return Read::none;
        case Kind::yes: text = "True"; return Read::ok;
        case Kind::no: text = "False"; return Read::ok;
        case Kind::integer: text = token.text == "-0" ? "0" : token.text; return Read::ok;
        case Kind::text: text = token.text; return Read::ok;
        case Kind::composite: break;
    }
    return Read::odd;
}

}  // namespace sightline
