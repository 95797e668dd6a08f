#include "integers.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "sqlite_file.h"

namespace sightline {

namespace {

constexpr size_t kSpanPages = 512;  // read by one thread at once, 2 MB with pages of 4 kB
constexpr size_t kRunPages = 64;    // that follow each other in the file are read together

// A column of one span. It costs nothing as long as all its rows are the same.
class Cells {
public:
    void put(bool is_null, int64_t value) {
        if (values_.empty()) {
            if (rows_ == 0) {
                first_is_null_ = is_null;
                first_ = value;
            }
            if (is_null == first_is_null_ && value == first_) {
                ++rows_;
                return;
            }
            values_.assign(rows_, first_);
            if (first_is_null_) nulls_.assign(rows_, 1);
        }
        if (is_null && nulls_.empty()) nulls_.assign(rows_, 0);
        values_.push_back(value);
        if (!nulls_.empty()) nulls_.push_back(is_null ? 1 : 0);
        ++rows_;
    }

    bool is_constant() const { return values_.empty(); }
    bool is_constant_like(const Cells& other) const {
        return is_constant() && first_is_null_ == other.first_is_null_ && first_ == other.first_;
    }
    std::optional<int64_t> first() const {
        return first_is_null_ ? std::nullopt : std::optional(first_);
    }
    bool has_nulls() const { return is_constant() ? first_is_null_ : !nulls_.empty(); }
    bool is_null(size_t row) const {
        return is_constant() ? first_is_null_ : !nulls_.empty() && nulls_[row] != 0;
    }

    void copy_to(int64_t* out) const {
        if (is_constant()) {
            std::fill_n(out, rows_, first_);
        } else {
            std::memcpy(out, values_.data(), rows_ * sizeof(int64_t));
        }
    }
    void clear() { *this = Cells(); }

private:
    size_t rows_ = 0;
    bool first_is_null_ = false;
    int64_t first_ = 0;  // 0 for null
    std::vector<int64_t> values_;
    std::vector<uint8_t> nulls_;  // empty where no row is null
};

struct Span {
    size_t first_leaf = 0;
    size_t leaves = 0;
    size_t rows = 0;
    std::vector<Cells> columns;
};

// Bytes of a value of each serial type below 12; 10 and 11 are SQLite's own (section 2.1).
constexpr size_t kSizes[12] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};

bool is_integer(uint64_t type) { return type <= 6 || type == 8 || type == 9; }

int64_t integer(uint64_t type, const uint8_t* at) {
    switch (type) {
        case 1: return static_cast<int8_t>(at[0]);
        case 2: return static_cast<int16_t>(big_endian<2>(at));
        case 3: return static_cast<int32_t>(big_endian<3>(at) << 8) >> 8;
        case 4: return static_cast<int32_t>(big_endian<4>(at));
        case 5: return static_cast<int64_t>(big_endian<6>(at) << 16) >> 16;
        case 6: return static_cast<int64_t>(big_endian<8>(at));
        case 9: return 1;
        default: return 0;
    }
}

// Takes the wanted values out of records.
class Columns {
public:
    explicit Columns(const Wanted& wanted) : wanted_(wanted) {
        for (const int column : wanted.columns) {
            last_ = std::max(last_, column);
        }
        targets_.resize(static_cast<size_t>(last_ + 1));
        for (size_t i = 0; i < wanted.columns.size(); ++i) {
            const int column = wanted.columns[i];
            (column < 0 ? rowids_ : targets_[static_cast<size_t>(column)]).push_back(i);
        }
    }

    bool add(const Record& record, std::vector<Cells>& out) const {
        const uint8_t* type_at = record.data;
        const uint8_t* const end = record.data + record.size;
        uint64_t header = 0;
        const size_t taken = varint(type_at, end, header);
        if (taken == 0 || header < taken || header > record.size) return false;
        const uint8_t* const types_end = record.data + header;
        const uint8_t* value = types_end;
        type_at += taken;
        for (const size_t target : rowids_) out[target].put(false, record.rowid);
        for (int column = 0; column <= last_; ++column) {
            uint64_t type = 0;
            const size_t bytes = varint(type_at, types_end, type);
            if (bytes == 0) return false;
            type_at += bytes;
            const uint64_t size = type >= 12 ? (type - 12) / 2 : kSizes[type];
            if (size > static_cast<size_t>(end - value)) return false;
            const auto& targets = targets_[static_cast<size_t>(column)];
            if (!targets.empty()) {
                if (!is_integer(type)) return false;
                const bool is_null = type == 0 && column != wanted_.alias;
                const int64_t number =
                    type == 0 && column == wanted_.alias ? record.rowid : integer(type, value);
                for (const size_t target : targets) out[target].put(is_null, number);
            }
            value += size;
        }
        return true;
    }

private:
    const Wanted& wanted_;
    int last_ = -1;
    std::vector<std::vector<size_t>> targets_;  // of each column of a row
    std::vector<size_t> rowids_;
};

bool read_span(const SqliteFile& file, const std::vector<uint32_t>& leaves, const Columns& columns,
               Span& span) {
    std::vector<uint8_t> pages;
    std::vector<uint8_t> scratch;
    std::vector<uint16_t> offsets;
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
            for (const uint16_t offset : offsets) {
                Record record{};
                if (!file.record(page, offset, record, scratch) ||
                    !columns.add(record, span.columns)) {
                    return false;
                }
                ++span.rows;
            }
        }
        leaf += run;
    }
    return true;
}

// The column of the whole table; the spans' own are given back on the way.
std::shared_ptr<BatchColumn> joined(std::vector<Span>& spans, size_t column, size_t rows) {
    auto out = std::make_shared<BatchColumn>();
    out->name = std::to_string(column);
    out->format = "l";
    auto values = std::make_shared<std::vector<int64_t>>(rows);
    size_t at = 0;
    for (Span& span : spans) {
        Cells& cells = span.columns[column];
        cells.copy_to(values->data() + at);
        if (cells.has_nulls()) {
            if (out->valid.empty()) out->valid.assign((rows + 7) / 8, 0xff);
            for (size_t row = 0; row < span.rows; ++row) {
                if (!cells.is_null(row)) continue;
                ++out->nulls;
                out->valid[(at + row) / 8] &= static_cast<uint8_t>(~(1u << ((at + row) % 8)));
            }
        }
        at += span.rows;
        cells.clear();
    }
    out->data = values->data();
    out->values = std::move(values);
    return out;
}

}  // namespace

std::optional<Integers> integers_of(const std::string& path, const Wanted& wanted,
                                    unsigned threads) {
    const SqliteFile file(path);
    std::vector<uint32_t> leaves;
    if (!file.leaves(wanted.root, leaves)) return std::nullopt;
    const Columns columns(wanted);
    std::vector<Span> spans;
    for (size_t at = 0; at < leaves.size(); at += kSpanPages) {
        spans.push_back({at, std::min(kSpanPages, leaves.size() - at), 0, {}});
        spans.back().columns.resize(wanted.columns.size());
    }
    std::atomic<size_t> next{0};
    std::atomic<bool> failed{false};
    const auto work = [&] {
        for (size_t i = next++; !failed && i < spans.size(); i = next++) {
            if (!read_span(file, leaves, columns, spans[i])) failed = true;
        }
    };
    std::vector<std::thread> others;
    for (size_t i = 1; i < std::min<size_t>(threads, spans.size()); ++i) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
    if (failed) return std::nullopt;

    spans.erase(std::remove_if(spans.begin(), spans.end(),
                               [](const Span& span) { return span.rows == 0; }),
                spans.end());
    size_t rows = 0;
    for (const Span& span : spans) rows += span.rows;
    Integers out;
    out.varying.rows = static_cast<int64_t>(rows);
    for (size_t i = 0; i < wanted.columns.size(); ++i) {
        const bool same = std::all_of(spans.begin(), spans.end(), [&](const Span& span) {
            return span.columns[i].is_constant_like(spans.front().columns[i]);
        });
        if (same) {
            out.constants.push_back(
                {i, spans.empty() ? std::nullopt : spans.front().columns[i].first()});
        } else {
            out.varying.columns.push_back(joined(spans, i, rows));
        }
    }
    return out;
}

}  // namespace sightline
