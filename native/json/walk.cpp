#include "json/walk.h"

#include <cstring>
#include <vector>

namespace sightline {

namespace {

std::string_view trimmed(std::string_view token) {
    while (!token.empty() && (token.back() == ' ' || token.back() == '\n' ||
                              token.back() == '\r' || token.back() == '\t')) {
        token.remove_suffix(1);
    }
    return token;
}

bool read_text(od::value value, std::string_view raw, std::string_view& text) {
    if (value.get_string().get(text) != simdjson::SUCCESS) return false;
    const bool had_escapes = trimmed(raw).size() != text.size() + 2;
    return !(had_escapes && has_surrogate(text));
}

bool check_children(od::value value, int depth) {
    if (depth >= kMaxDepth) return false;
    Token ignored;
    if (value.raw_json_token()[0] == '[') {
        od::array array;
        if (value.get_array().get(array) != simdjson::SUCCESS) return false;
        for (auto item : array) {
            od::value child;
            if (std::move(item).get(child) != simdjson::SUCCESS) return false;
            if (!read_token(child, ignored, depth + 1)) return false;
        }
        return true;
    }
    od::object object;
    if (value.get_object().get(object) != simdjson::SUCCESS) return false;
    for (auto item : object) {
        od::field field;
        std::string_view key;
        if (std::move(item).get(field) != simdjson::SUCCESS || !key_of(field, key)) return false;
        if (!read_token(field.value(), ignored, depth + 1)) return false;
    }
    return true;
}

void append_quoted(std::string_view text, std::string& out) {
    static const char* const hex = "0123456789abcdef";
    const auto unit = [&](unsigned code) {
        out += "\\u";
        for (int shift = 12; shift >= 0; shift -= 4) out += hex[code >> shift & 15];
    };
    out += '"';
    for (size_t i = 0; i < text.size();) {
        const auto lead = static_cast<unsigned char>(text[i]);
        if (lead < 0x80) {
            ++i;
            switch (lead) {
                case '"': out += "\\\""; break;
                case '\\': out += "\\\\"; break;
                case '\n': out += "\\n"; break;
                case '\r': out += "\\r"; break;
                case '\t': out += "\\t"; break;
                case '\f': out += "\\f"; break;
                case '\b': out += "\\b"; break;
                default:
                    if (lead < 0x20 || lead == 0x7f) {
                        unit(lead);
                    } else {
                        out += static_cast<char>(lead);
                    }
            }
            continue;
        }
        // simdjson has checked that this is UTF-8.
        const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
        unsigned code = lead & (0x7fu >> length);
        for (size_t k = 1; k < length && i + k < text.size(); ++k) {
            code = code << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3fu);
        }
        i += length;
        if (code >= 0x10000) {
            unit(0xd800 + ((code - 0x10000) >> 10));
            unit(0xdc00 + ((code - 0x10000) & 0x3ff));
        } else {
            unit(code);
        }
    }
    out += '"';
}

bool dump_array(od::array array, std::string& out, int depth) {
    out += '[';
    bool first = true;
    for (auto item : array) {
        od::value child;
        if (std::move(item).get(child) != simdjson::SUCCESS) return false;
        if (!first) out += ',';
        first = false;
        if (!dump(child, out, depth + 1)) return false;
    }
    out += ']';
    return true;
}

bool dump_object(od::object object, std::string& out, int depth) {
    std::vector<std::string> seen;
    out += '{';
    for (auto item : object) {
        od::field field;
        std::string_view key;
        if (std::move(item).get(field) != simdjson::SUCCESS || !key_of(field, key)) return false;
        for (const std::string& other : seen) {
            if (other == key) return false;  // of equal keys the last one counts: left to Python
        }
        if (seen.size() >= 64) return false;  // no such object in a list of shapes; keeps this linear
        if (!seen.empty()) out += ',';
        seen.emplace_back(key);
        append_quoted(key, out);
        out += ':';
        if (!dump(field.value(), out, depth + 1)) return false;
    }
    out += '}';
    return true;
}

}  // namespace

bool has_surrogate(std::string_view text) {
    for (size_t i = 0; i + 1 < text.size(); ++i) {
        if (static_cast<unsigned char>(text[i]) == 0xed &&
            static_cast<unsigned char>(text[i + 1]) >= 0xa0) {
            return true;
        }
    }
    return false;
}

bool key_of(od::field& field, std::string_view& key) {
    const char* raw = field.key().raw();
    const char* end = raw;
    while (*end != '"' && *end != '\\') ++end;
    if (*end == '"') {
        key = {raw, static_cast<size_t>(end - raw)};
        return true;
    }
    return field.unescaped_key().get(key) == simdjson::SUCCESS && !has_surrogate(key);
}

bool read_token(od::value value, Token& token, int depth) {
    const std::string_view raw = value.raw_json_token();
    switch (raw[0]) {
        case '"':
            token.kind = Kind::text;
            return read_text(value, raw, token.text);
        case '{':
        case '[':
            token.kind = Kind::composite;
            token.text = {};
            return check_children(value, depth);
        default: break;
    }
    token.text = trimmed(raw);
    switch (raw[0]) {
        case 't': token.kind = Kind::yes; return token.text == "true";
        case 'f': token.kind = Kind::no; return token.text == "false";
        case 'n': token.kind = Kind::null; return token.text == "null";
        case 'N': token.kind = Kind::text; return token.text == "NaN";
        case 'I': token.kind = Kind::text; return token.text == "Infinity";
        default: break;
    }
    if (token.text == "-Infinity") {
        token.kind = Kind::text;
        return true;
    }
    bool whole = false;
    if (token.text.size() > 4000 || !is_json_number(token.text, whole)) return false;
    token.kind = whole ? Kind::integer : Kind::text;
    return true;
}

bool dump(od::value value, std::string& out, int depth) {
    if (depth >= kMaxDepth) return false;
    const char first = value.raw_json_token()[0];
    if (first == '[') {
        od::array array;
        return value.get_array().get(array) == simdjson::SUCCESS && dump_array(array, out, depth);
    }
    if (first == '{') {
        od::object object;
        return value.get_object().get(object) == simdjson::SUCCESS &&
               dump_object(object, out, depth);
    }
    Token token;
    if (!read_token(value, token)) return false;
    switch (token.kind) {
        case Kind::yes: out += "true"; break;
        case Kind::no: out += "false"; break;
        case Kind::null: out += "null"; break;
        case Kind::integer: out += token.text == "-0" ? "0" : token.text; break;
        default: append_quoted(token.text, out); break;
    }
    return true;
}

}  // namespace sightline
