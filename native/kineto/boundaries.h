// Finds where the items of a JSON array end. Tracks strings and escapes; parses nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sightline {

// Walks over the items of an array from where one starts; can go on when more bytes have come.
class BoundaryScanner {
public:
    enum class Found : uint8_t { more, boundary, array_end };

    // Starts anew at the offset `begin` of the data.
    void restart(size_t begin);

    // Scans data[0, size) from where it stopped until an item ends at `wanted` or behind it.
    // `final`: no more bytes will come. Of the last 63 bytes, none is looked at before that.
    Found scan(const char* data, size_t size, size_t wanted, bool final);

    size_t position() const { return position_; }            // how far it has looked
    size_t last_boundary() const { return last_boundary_; }  // end of the last whole item seen
    size_t array_end() const { return array_end_; }          // where the array's ']' is

private:
    Found block(const char* bytes, size_t length, size_t wanted);

    size_t position_ = 0;
    size_t last_boundary_ = 0;
    size_t array_end_ = 0;
    int64_t depth_ = 0;
    uint64_t in_string_ = 0;  // all ones inside a string
    uint64_t escaped_ = 0;    // 1 if the next byte is escaped
};

// The end of the object or array that starts at `data`, or 0 where it is not whole.
size_t end_of_value(const char* data, size_t size);

}  // namespace sightline
