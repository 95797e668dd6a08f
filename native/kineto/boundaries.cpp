#include "kineto/boundaries.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sightline {

namespace {

constexpr size_t kBlock = 64;

// One bit for each of 64 bytes.
struct Masks {
    uint64_t quote = 0;
    uint64_t backslash = 0;
    uint64_t open = 0;
    uint64_t close = 0;
};

#if defined(__SSE2__)
uint64_t equal(const __m128i (&bytes)[4], char wanted) {
    const __m128i all = _mm_set1_epi8(wanted);
    uint64_t mask = 0;
    for (int i = 0; i < 4; ++i) {
        const auto part = static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes[i], all)));
        mask |= static_cast<uint64_t>(part) << (16 * i);
    }
    return mask;
}

Masks masks_of(const char* data) {
    __m128i bytes[4];
    __m128i curled[4];
    for (int i = 0; i < 4; ++i) {
        bytes[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 16 * i));
        // The bit 0x20 is all that tells '[' from '{' and ']' from '}'.
        curled[i] = _mm_or_si128(bytes[i], _mm_set1_epi8(0x20));
    }
    return {equal(bytes, '"'), equal(bytes, '\\'), equal(curled, '{'), equal(curled, '}')};
}
#else
Masks masks_of(const char* data) {
    Masks masks;
    for (size_t i = 0; i < kBlock; ++i) {
        const char c = data[i];
        masks.quote |= static_cast<uint64_t>(c == '"') << i;
        masks.backslash |= static_cast<uint64_t>(c == '\\') << i;
        masks.open |= static_cast<uint64_t>((c | 0x20) == '{') << i;
        masks.close |= static_cast<uint64_t>((c | 0x20) == '}') << i;
    }
    return masks;
}
#endif

// Bit i of the answer: the parity of the bits 0 to i.
uint64_t prefix_xor(uint64_t bits) {
    for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
    return bits;
}

// The bytes that a backslash before them escapes; `carry` goes from block to block.
uint64_t escaped_bytes(uint64_t backslash, uint64_t& carry) {
    uint64_t escaped = carry;
    carry = 0;
    uint64_t rest = backslash & ~escaped;
    while (rest != 0) {
        const int at = __builtin_ctzll(rest);
        if (at == 63) {
            carry = 1;
            break;
        }
        escaped |= uint64_t{2} << at;
        rest &= ~(uint64_t{3} << at);
    }
    return escaped;
}

}  // namespace

void BoundaryScanner::restart(size_t begin) {
    position_ = last_boundary_ = begin;
    array_end_ = 0;
    depth_ = 0;
    in_string_ = 0;
    escaped_ = 0;
}

BoundaryScanner::Found BoundaryScanner::block(const char* bytes, size_t length, size_t wanted) {
    Masks masks = masks_of(bytes);
    const uint64_t escaped = escaped_bytes(masks.backslash, escaped_);
    const uint64_t inside = prefix_xor(masks.quote & ~escaped) ^ in_string_;
    in_string_ = static_cast<uint64_t>(static_cast<int64_t>(inside) >> 63);
    const uint64_t open = masks.open & ~inside;
    uint64_t edges = (masks.open | masks.close) & ~inside;
    while (edges != 0) {
        const auto at = static_cast<size_t>(__builtin_ctzll(edges));
        edges &= edges - 1;
        if ((open >> at & 1) != 0) {
            ++depth_;
            continue;
        }
        if (--depth_ == 0) {
            last_boundary_ = position_ + at + 1;
            if (last_boundary_ >= wanted) return Found::boundary;
        } else if (depth_ < 0) {
            array_end_ = position_ + at;
            return Found::array_end;
        }
    }
    position_ += length;
    return Found::more;
}

BoundaryScanner::Found BoundaryScanner::scan(const char* data, size_t size, size_t wanted,
                                             bool final) {
    while (position_ + kBlock <= size) {
        const Found found = block(data + position_, kBlock, wanted);
        if (found != Found::more) return found;
    }
    if (!final || position_ >= size) return Found::more;
    char tail[kBlock] = {};
    std::memcpy(tail, data + position_, size - position_);
    return block(tail, size - position_, wanted);
}

size_t end_of_value(const char* data, size_t size) {
    BoundaryScanner scanner;
    scanner.restart(0);
    return scanner.scan(data, size, 1, true) == BoundaryScanner::Found::boundary
               ? scanner.last_boundary()
               : 0;
}

}  // namespace sightline
