// A value of a pickle in one word: what it is in the upper bits, its number or its place below.
#pragma once

#include <cstdint>

namespace sightline {

// Never negative, so that a column of them packs well and none is kNull.
using Value = int64_t;

enum class Tag : uint8_t {
    constant = 1,  // None, False, True, or bytes, which are not kept
    integer,       // of up to 60 bits
    wide,          // place of 64 bits, shifted by one; the lowest bit says that they are a float
    text,          // code in the dictionary
    list,          // its number: a list may grow
    tuple,         // number of its content
    dict,          // its number: a dict may grow
};

constexpr int kTagShift = 60;
constexpr uint64_t kPayload = (uint64_t{1} << kTagShift) - 1;

constexpr Value make_value(Tag tag, uint64_t payload) {
    return static_cast<Value>((static_cast<uint64_t>(tag) << kTagShift) | (payload & kPayload));
}
constexpr Tag tag_of(Value value) {
    return static_cast<Tag>(static_cast<uint64_t>(value) >> kTagShift);
}
constexpr uint64_t payload_of(Value value) { return static_cast<uint64_t>(value) & kPayload; }

constexpr Value kNone = make_value(Tag::constant, 0);
constexpr Value kFalse = make_value(Tag::constant, 1);
constexpr Value kTrue = make_value(Tag::constant, 2);
constexpr Value kBytes = make_value(Tag::constant, 3);

constexpr bool fits_payload(int64_t number) {
    return number >= -(int64_t{1} << (kTagShift - 1)) && number < (int64_t{1} << (kTagShift - 1));
}
// The integer of a value with that tag.
constexpr int64_t integer_of(Value value) {
    return static_cast<int64_t>(payload_of(value) << (64 - kTagShift)) >> (64 - kTagShift);
}

}  // namespace sightline
