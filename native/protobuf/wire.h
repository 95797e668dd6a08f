// The wire format of protocol buffers (protobuf.dev/programming-guides/encoding), within bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sightline {

enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct Field {
    uint32_t number = 0;
    Wire wire = Wire::varint;
    uint64_t value = 0;             // of a number
    const uint8_t* data = nullptr;  // of bytes
    size_t size = 0;
};

// Reads the fields of one message. At the end of the message, and at the first byte that no message
// can hold, there is no next one; is_whole() tells the two apart.
class Fields {
public:
    Fields(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

    bool next(Field& field) {
        if (at_ == end_) return false;
        uint64_t key = 0;
        if (!varint(key) || key >> 3 == 0 || key >> 3 > UINT32_MAX) return fail();
        field.number = static_cast<uint32_t>(key >> 3);
        field.wire = static_cast<Wire>(key & 7);
        switch (field.wire) {
            case Wire::varint: return varint(field.value) || fail();
            case Wire::fixed64: return fixed<uint64_t>(field.value) || fail();
            case Wire::fixed32: return fixed<uint32_t>(field.value) || fail();
            case Wire::bytes: {
                uint64_t size = 0;
                if (!varint(size) || size > static_cast<size_t>(end_ - at_)) return fail();
                field.data = at_;
                field.size = static_cast<size_t>(size);
                at_ += size;
                return true;
            }
        }
        return fail();
    }

    bool varint(uint64_t& value) {
        if (at_ == end_) return false;
        value = *at_++;
        if (value < 0x80) return true;
        value &= 0x7f;
        for (unsigned shift = 7; shift < 70 && at_ != end_; shift += 7) {
            const uint64_t byte = *at_++;
            value |= (byte & 0x7f) << shift;
            if (byte < 0x80) return true;
        }
        return false;
    }

    bool is_whole() const { return whole_; }
    const uint8_t* at() const { return at_; }

private:
    template <typename Number>
    bool fixed(uint64_t& value) {
        if (static_cast<size_t>(end_ - at_) < sizeof(Number)) return false;
        Number read = 0;
        std::memcpy(&read, at_, sizeof read);  // little endian, as the machine
        value = read;
        at_ += sizeof read;
        return true;
    }
    bool fail() {
        whole_ = false;
        at_ = end_;
        return false;
    }

    const uint8_t* at_;
    const uint8_t* end_;
    bool whole_ = true;
};

}  // namespace sightline
