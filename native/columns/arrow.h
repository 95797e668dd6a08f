// Batches of columns in the Arrow C data interface, which Polars takes over without a copy.
// https://arrow.apache.org/docs/format/CDataInterface.html, CStreamInterface.html
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

extern "C" {
struct ArrowSchema {
    const char* format;
    const char* name;
    const char* metadata;
    int64_t flags;
    int64_t n_children;
    ArrowSchema** children;
    ArrowSchema* dictionary;
    void (*release)(ArrowSchema*);
    void* private_data;
};
struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void** buffers;
    ArrowArray** children;
    ArrowArray* dictionary;
    void (*release)(ArrowArray*);
    void* private_data;
};
struct ArrowArrayStream {
    int (*get_schema)(ArrowArrayStream*, ArrowSchema*);
    int (*get_next)(ArrowArrayStream*, ArrowArray*);
    const char* (*get_last_error)(ArrowArrayStream*);
    void (*release)(ArrowArrayStream*);
    void* private_data;
};
}

namespace sightline {

// A text in an Arrow string view: up to 12 bytes lie in it, longer ones in a buffer.
struct View {
    int32_t length;
    char bytes[12];
};
static_assert(sizeof(View) == 16);

struct BatchColumn {
    std::string name;
    std::string format;  // "c", "s", "i", "l" int8 to int64, "I" uint32, "g" float64, "b" boolean, "vu" string view,
                         // "vz" binary view
    std::vector<uint8_t> valid;  // one bit a row; empty where all are
    int64_t nulls = 0;
    std::shared_ptr<void> values;  // keeps the buffer
    const void* data = nullptr;
    std::vector<std::shared_ptr<std::vector<char>>> texts;  // buffers of a string view
    std::vector<int64_t> text_sizes;

    // Makes one of the column's `rows` rows null; it was not before.
    void set_null(size_t row, size_t rows) {
        if (valid.empty()) valid.assign((rows + 7) / 8, 0xff);
        valid[row / 8] &= static_cast<uint8_t>(~(1U << (row % 8)));
        ++nulls;
    }
};

// A column of int8_t, int16_t, int32_t or int64_t; the type's lowest (kNull) becomes null.
template <typename Number>
std::shared_ptr<BatchColumn> numbers_column(const char* name, std::vector<Number> values);

// A column of row numbers; kNoRow becomes null.
std::shared_ptr<BatchColumn> rows_column(const char* name, std::vector<uint32_t> values);

// Rows of a table. Its columns are given away once, with a stream of one struct array.
class Batch {
public:
    int64_t rows = 0;
    std::vector<std::shared_ptr<BatchColumn>> columns;

    // A stream that owns what it needs; the caller owns the stream.
    ArrowArrayStream* stream() const;
};

}  // namespace sightline
