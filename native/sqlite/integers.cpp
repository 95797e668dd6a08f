#include "sqlite/integers.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include "sqlite/sqlite_file.h"

namespace sightline {

namespace {

constexpr size_t kSpanPages = 512;  // read by one thread at once, 2 MB with pages of 4 kB
constexpr size_t kRunPages = 64;    // that follow each other in the file are read together

// Calls work(0) to work(count - 1), each once, until one fails.
template <typename Work>
bool all_of(size_t count, unsigned threads, const Work& work) {
    std::atomic<size_t> next{0};
    std::atomic<bool> failed{false};
    const auto share = [&] {
        for (size_t i = next++; !failed && i < count; i = next++) {
            if (!work(i)) failed = true;
        }
    };
    std::vector<std::thread> others;
    for (size_t i = 1; i < std::min<size_t>(threads, count); ++i) others.emplace_back(share);
    share();
    for (std::thread& other : others) other.join();
    return !failed;
}

// One column in one span of rows. As long as all its rows are the same, nothing is written: memory
// that is never touched takes none.
class Cells {
public:
    // `out` has room for all rows of the span.
    void start(int64_t* out, size_t rows) {
        out_ = out;
        rows_ = rows;
    }

    // The value of a row that is null is 0.
    void put(size_t row, bool is_null, int64_t value) {
        if (!varies_) {
            if (row == 0) {
                first_is_null_ = is_null;
                first_ = value;
                return;
            }
            if (value == first_ && is_null == first_is_null_) return;
            varies_ = true;
            std::fill_n(out_, row, first_);
            if (first_is_null_) {
                nulls_.assign(rows_, 0);
                std::fill_n(nulls_.begin(), row, uint8_t{1});
            }
        }
        out_[row] = value;
        if (is_null) {
            if (nulls_.empty()) nulls_.assign(rows_, 0);
            nulls_[row] = 1;
        }
    }

    bool is_constant_like(const Cells& other) const {
        return !varies_ && !other.varies_ && first_is_null_ == other.first_is_null_ &&
               first_ == other.first_;
    }
    std::optional<int64_t> first() const {
        return first_is_null_ ? std::nullopt : std::optional(first_);
    }

    // Writes the rows also where they are all the same, since other spans differ.
    void settle() {
        if (!varies_) std::fill_n(out_, rows_, first_);
    }
    bool has_nulls() const { return varies_ ? !nulls_.empty() : first_is_null_; }
    bool is_null(size_t row) const { return varies_ ? nulls_[row] != 0 : first_is_null_; }

private:
    int64_t* out_ = nullptr;
    size_t rows_ = 0;
    bool varies_ = false;
    bool first_is_null_ = false;
    int64_t first_ = 0;
    std::vector<uint8_t> nulls_;  // empty where no row is null
};

struct Span {
    size_t first_leaf = 0;
    size_t leaves = 0;
    size_t first_row = 0;
    size_t rows = 0;
    std::vector<Cells> columns;
};

// Bytes of a value of each serial type below 12; 10 and 11 are SQLite's own (section 2.1).
constexpr size_t kSizes[12] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};

bool is_integer(uint64_t type) { return type <= 6 || type == 8 || type == 9; }

// Where a wanted value lies in the records of one shape, and how it is read.
struct Step {
    enum How : uint8_t { kStored, kSmall, kNull, kRow };
    size_t target;  // the wanted column
    uint32_t at;    // its first byte, after the header
    uint8_t shift;  // of the eight bytes from there, or the value itself where it takes no bytes
    How how;
};

// What all records with the same header have in common. A table has few shapes: the header gives
// the type of each value, and types differ where numbers need more bytes.
struct Shape {
    std::vector<uint8_t> header;
    std::vector<Step> steps;
    size_t size = 0;  // of a record at least, up to the end of the last wanted value
};

// The shapes that were met, found by their header. Two that fall on the same place take turns.
class Shapes {
public:
    Shape& at(const uint8_t* header, size_t size) {
        uint64_t hash = size;
        for (size_t i = 0; i < size; i += 8) {  // see kSlack
            uint64_t word = big_endian<8>(header + i);
            if (size - i < 8) word >>= 64 - 8 * (size - i);
            hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        }
        return shapes_[hash >> 56];
    }

private:
    std::vector<Shape> shapes_ = std::vector<Shape>(256);
};

// Takes the wanted values out of records.
class Columns {
public:
    explicit Columns(const Wanted& wanted) : wanted_(wanted) {
        int last = -1;
        for (const int column : wanted.columns) last = std::max(last, column);
        targets_.resize(static_cast<size_t>(last + 1));
        for (size_t i = 0; i < wanted.columns.size(); ++i) {
            const int column = wanted.columns[i];
            (column < 0 ? rowids_ : targets_[static_cast<size_t>(column)]).push_back(i);
        }
    }

    bool add(const Record& record, size_t row, Cells* out, Shapes& shapes) const {
        uint64_t header = 0;
        const size_t taken = varint(record.data, record.data + record.size, header);
        if (taken == 0 || header < taken || header > record.size) return false;
        Shape& shape = shapes.at(record.data, header);
        if (shape.header.size() != header ||
            std::memcmp(shape.header.data(), record.data, header) != 0) {
            if (!learn(record.data, header, taken, shape)) return false;
        }
        if (record.size < shape.size) return false;
        const uint8_t* const values = record.data + header;
        for (const Step& step : shape.steps) {
            int64_t value = step.shift;
            if (step.how == Step::kStored) {
                value = static_cast<int64_t>(big_endian<8>(values + step.at)) >> step.shift;
            } else if (step.how == Step::kRow) {
                value = record.rowid;
            }
            out[step.target].put(row, step.how == Step::kNull, value);
        }
        return true;
    }

private:
    // Reads a header. False where a wanted value is no integer, or where there are too few.
    bool learn(const uint8_t* header, size_t size, size_t taken, Shape& shape) const {
        shape.header.clear();  // whatever is learned by halves must not be found again
        shape.steps.clear();
        for (const size_t target : rowids_) shape.steps.push_back({target, 0, 0, Step::kRow});
        size_t at = 0;
        const uint8_t* type_at = header + taken;
        for (size_t column = 0; column < targets_.size(); ++column) {
            uint64_t type = 0;
            const size_t bytes = varint(type_at, header + size, type);
            if (bytes == 0) return false;
            type_at += bytes;
            const uint64_t value_size = type >= 12 ? (type - 12) / 2 : kSizes[type];
            if (value_size > kLargest) return false;
            for (const size_t target : targets_[column]) {
                if (!is_integer(type)) return false;
                Step step{target, static_cast<uint32_t>(at), 0, Step::kSmall};
                if (type == 0) {
                    const bool is_key = static_cast<int>(column) == wanted_.alias;
                    step.how = is_key ? Step::kRow : Step::kNull;
                } else if (value_size > 0) {
                    step.how = Step::kStored;
                    step.shift = static_cast<uint8_t>(64 - 8 * value_size);
                } else {
                    step.shift = type == 9 ? 1 : 0;
                }
                shape.steps.push_back(step);
            }
            at += value_size;
            if (at > kLargest) return false;
        }
        shape.size = size + at;
        shape.header.assign(header, header + size);
        return true;
    }

    static constexpr uint64_t kLargest = uint64_t{1} << 31;  // record that SQLite writes, and more
    const Wanted& wanted_;
    std::vector<std::vector<size_t>> targets_;  // of each column of a row: what wants it
    std::vector<size_t> rowids_;
};

bool count_rows(const SqliteFile& file, const std::vector<uint32_t>& leaves, Span& span) {
    for (size_t leaf = span.first_leaf; leaf < span.first_leaf + span.leaves; ++leaf) {
        size_t rows = 0;
        if (!file.rows(leaves[leaf], rows)) return false;
        span.rows += rows;
    }
    return true;
}

bool read_span(const SqliteFile& file, const std::vector<uint32_t>& leaves, const Columns& columns,
               Span& span) {
    Shapes shapes;
    std::vector<uint8_t> pages;
    std::vector<uint8_t> scratch;
    std::vector<uint16_t> offsets;
    size_t row = 0;
    const size_t end = span.first_leaf + span.leaves;
    for (size_t leaf = span.first_leaf; leaf < end;) {
        size_t run = 1;
        while (run < kRunPages && leaf + run < end && leaves[leaf + run] == leaves[leaf] + run) {
            ++run;
        }
        if (!file.read(leaves[leaf], run, pages)) return false;
        for (size_t i = 0; i < run; ++i) {
            const uint8_t* page = pages.data() + i * file.page_size();
            if (!file.cells(page, offsets)) return false;
            // Somebody writes to the file where a page no longer has the rows that were counted.
            if (offsets.size() > span.rows - row) return false;
            for (const uint16_t offset : offsets) {
                Record record{};
                if (!file.record(page, offset, record, scratch) ||
                    !columns.add(record, row, span.columns.data(), shapes)) {
                    return false;
                }
                ++row;
            }
        }
        leaf += run;
    }
    return row == span.rows;
}

// The column of the whole table, with what all spans have written into `values`.
std::shared_ptr<BatchColumn> whole(std::vector<Span>& spans, size_t column, size_t rows,
                                   std::shared_ptr<int64_t[]> values) {
    auto out = std::make_shared<BatchColumn>();
    out->name = std::to_string(column);
    out->format = "l";
    out->data = values.get();
    out->values = std::move(values);
    for (Span& span : spans) {
        Cells& cells = span.columns[column];
        cells.settle();
        if (!cells.has_nulls()) continue;
        for (size_t i = 0; i < span.rows; ++i) {
            if (cells.is_null(i)) out->set_null(span.first_row + i, rows);
        }
    }
    return out;
}

Integers taken(std::vector<Span>& spans, size_t columns, size_t rows, unsigned threads,
               std::vector<std::shared_ptr<int64_t[]>>& values) {
    Integers out;
    out.varying.rows = static_cast<int64_t>(rows);
    std::vector<size_t> varying;
    for (size_t i = 0; i < columns; ++i) {
        const bool same = std::all_of(spans.begin(), spans.end(), [&](const Span& span) {
            return span.columns[i].is_constant_like(spans.front().columns[i]);
        });
        if (same) {
            out.constants.push_back(
                {i, spans.empty() ? std::nullopt : spans.front().columns[i].first()});
        } else {
            varying.push_back(i);
        }
    }
    out.varying.columns.resize(varying.size());
    all_of(varying.size(), threads, [&](size_t i) {
        const size_t column = varying[i];
        out.varying.columns[i] = whole(spans, column, rows, std::move(values[column]));
        return true;
    });
    return out;
}

}  // namespace

std::optional<Integers> integers_of(const std::string& path, const Wanted& wanted,
                                    unsigned threads) {
    const SqliteFile file(path);
    std::vector<uint32_t> leaves;
    if (!file.leaves(wanted.root, leaves)) return std::nullopt;
    std::vector<Span> spans;
    for (size_t at = 0; at < leaves.size(); at += kSpanPages) {
        spans.push_back({at, std::min(kSpanPages, leaves.size() - at), 0, 0, {}});
    }
    if (!all_of(spans.size(), threads,
                [&](size_t i) { return count_rows(file, leaves, spans[i]); })) {
        return std::nullopt;
    }
    spans.erase(std::remove_if(spans.begin(), spans.end(),
                               [](const Span& span) { return span.rows == 0; }),
                spans.end());
    size_t rows = 0;
    for (Span& span : spans) {
        span.first_row = rows;
        rows += span.rows;
    }
    // Each span writes where its rows belong in the whole.
    std::vector<std::shared_ptr<int64_t[]>> values;
    for (size_t i = 0; i < wanted.columns.size(); ++i) {
        std::unique_ptr<int64_t[]> column(new (std::nothrow) int64_t[rows]);
        if (column == nullptr) return std::nullopt;  // damage that claims as many rows
        values.emplace_back(std::move(column));
    }
    const Columns columns(wanted);
    if (!all_of(spans.size(), threads, [&](size_t i) {
            Span& span = spans[i];
            span.columns.resize(values.size());
            for (size_t column = 0; column < values.size(); ++column) {
                span.columns[column].start(values[column].get() + span.first_row, span.rows);
            }
            return read_span(file, leaves, columns, span);
        })) {
        return std::nullopt;
    }
    return taken(spans, values.size(), rows, threads, values);
}

}  // namespace sightline
