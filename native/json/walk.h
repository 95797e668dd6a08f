// Reads values with simdjson's on-demand interface, and checks also what nobody asked for:
// skipping a value does not validate it, but a damaged event must not pass for a whole one.
#pragma once

#include <simdjson.h>

#include <string>

#include "json/token.h"

namespace sightline {

namespace od = simdjson::ondemand;

// Deeper nesting is left to Python's scanner, which has a limit of its own.
constexpr int kMaxDepth = 256;

// The value as a token. False where simdjson, or the JSON grammar, refuses it.
bool read_token(od::value value, Token& token, int depth = 0);

// The value as JSON text without blanks, ASCII only, as Python's json.dumps writes it.
bool dump(od::value value, std::string& out, int depth = 0);

// The key of a field, without a copy where it has no escapes.
bool key_of(od::field& field, std::string_view& key);

// Whether a text that JSON escapes made is valid Unicode: simdjson 3.0 lets lone low surrogates by.
bool has_surrogate(std::string_view text);

}  // namespace sightline
