// Numbers of any number of bits, at any bit.
#pragma once

#include <cstdint>
#include <cstring>

namespace sightline::ctf {

// Little-endian: the lowest bits come first, from the lowest bit of a byte on. `at` counts bits
// from `bytes`; all bytes that hold the number must be there.
inline uint64_t read_little(const uint8_t* bytes, uint64_t at, unsigned size) {
    const uint8_t* from = bytes + at / 8;
    const auto shift = static_cast<unsigned>(at % 8);
    const unsigned count = (shift + size + 7) / 8;
    uint64_t value = 0;
    for (unsigned i = 0; i < count && i < 8; ++i) value |= uint64_t{from[i]} << (8 * i);
    value >>= shift;
    if (count > 8) value |= uint64_t{from[8]} << (64 - shift);
    return size == 64 ? value : value & ((uint64_t{1} << size) - 1);
}

// Big-endian: the highest bits come first, from the highest bit of a byte on.
inline uint64_t read_big(const uint8_t* bytes, uint64_t at, unsigned size) {
    const uint8_t* from = bytes + at / 8;
    const auto shift = static_cast<unsigned>(at % 8);
    const unsigned count = (shift + size + 7) / 8;
    uint64_t value = from[0] & (0xffU >> shift);
    for (unsigned i = 1; i + 1 < count; ++i) value = value << 8 | from[i];
    const unsigned spare = count * 8 - shift - size;  // bits of the last byte that are not its
    if (count > 1) value = value << (8 - spare) | from[count - 1] >> spare;
    else value >>= spare;
    return value;
}

// The same of 1, 2, 4 or 8 whole bytes.
inline uint64_t read_plain(const uint8_t* from, unsigned size) {
    switch (size) {
        case 8: return *from;
        case 16: return uint64_t{from[0]} | uint64_t{from[1]} << 8;
        case 32: return uint64_t{from[0]} | uint64_t{from[1]} << 8 | uint64_t{from[2]} << 16 |
                        uint64_t{from[3]} << 24;
        default: return read_little(from, 0, 64);
    }
}

inline uint64_t reverse_bits(uint64_t value, unsigned size) {
    uint64_t out = 0;
    for (unsigned i = 0; i < size; ++i) out |= (value >> i & 1) << (size - 1 - i);
    return out;
}

inline uint64_t extend_sign(uint64_t value, unsigned size) {
    if (size >= 64) return value;
    const uint64_t sign = uint64_t{1} << (size - 1);
    return (value ^ sign) - sign;
}

}  // namespace sightline::ctf
