// Tables of a SQLite file, page by page: https://www.sqlite.org/fileformat2.html
// Only what a whole scan of a table needs. Whatever looks odd is refused: SQLite itself, through
// Python's module, is then asked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sightline {

// Bytes that can be read after the end of what was asked for, so that a value of any size can be
// taken with one load of eight.
constexpr size_t kSlack = 8;

// One row: its number, and its record (section 2.1 of the format).
struct Record {
    int64_t rowid;
    const uint8_t* data;
    size_t size;
};

class SqliteFile {
public:
    // Throws std::system_error where the file cannot be opened.
    explicit SqliteFile(const std::string& path);
    SqliteFile(const SqliteFile&) = delete;
    SqliteFile& operator=(const SqliteFile&) = delete;
    ~SqliteFile();

    // The leaf pages of the table whose root page is given, in order of rowid. False where the file
    // is damaged, or where the root is not that of a table with rowids.
    bool leaves(uint32_t root, std::vector<uint32_t>& found) const;

    // How many rows a leaf page says it has. False where it is none.
    bool rows(uint32_t page, size_t& found) const;

    // Some pages that follow each other in the file, and kSlack bytes more. False where they are
    // not all there.
    bool read(uint32_t first, size_t count, std::vector<uint8_t>& bytes) const;

    // Where the cells of a leaf page begin. False where the page is damaged.
    bool cells(const uint8_t* page, std::vector<uint16_t>& offsets) const;

    // The record of a cell, after which kSlack bytes can be read. `scratch` holds it where it goes on in overflow pages.
    bool record(const uint8_t* page, uint16_t offset, Record& out,
                std::vector<uint8_t>& scratch) const;

    size_t page_size() const { return page_size_; }

private:
    bool fill(uint32_t page, size_t bytes, uint8_t* out) const;
    bool collect(uint32_t page, int depth, uint64_t& budget, std::vector<uint32_t>& found) const;
    bool overflow(uint32_t page, size_t missing, std::vector<uint8_t>& scratch) const;

    int file_ = -1;
    size_t page_size_ = 0;
    size_t usable_ = 0;  // bytes of a page that are not reserved for extensions
    uint64_t pages_ = 0;
    // Overflow pages read: more than the file has means that they are shared, or go in circles.
    mutable std::atomic<uint64_t> overflowing_{0};
};

// A variable-length integer: 1 to 9 bytes. Returns the bytes taken, 0 where it is cut off.
inline size_t varint(const uint8_t* at, const uint8_t* end, uint64_t& value) {
    if (at < end && *at < 0x80) {
        value = *at;
        return 1;
    }
    value = 0;
    for (size_t i = 0; i < 9 && at + i < end; ++i) {
        if (i == 8) {
            value = (value << 8) | at[i];
            return 9;
        }
        value = (value << 7) | (at[i] & 0x7f);
        if (at[i] < 0x80) return i + 1;
    }
    return 0;
}

// A big-endian integer without sign.
template <size_t Bytes>
uint64_t big_endian(const uint8_t* at) {
    uint64_t value = 0;
    for (size_t i = 0; i < Bytes; ++i) value = (value << 8) | at[i];
    return value;
}

}  // namespace sightline
