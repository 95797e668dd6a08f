#include "columns/packed.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "columns/numbers.h"

namespace sightline {

namespace {

template <typename Number>
void narrow(const std::vector<int64_t>& values, uint64_t lowest, uint64_t plus, uint8_t* out) {
    for (size_t i = 0; i < values.size(); ++i) {
        const uint64_t distance = static_cast<uint64_t>(values[i]) - lowest + plus;
        const auto number = static_cast<Number>(plus != 0 && values[i] == kNull ? 0 : distance);
        std::memcpy(out + i * sizeof number, &number, sizeof number);
    }
}

template <typename Kept>
uint64_t load_one(const uint8_t* bytes, size_t place) {
    Kept kept = 0;
    std::memcpy(&kept, bytes + place * sizeof kept, sizeof kept);
    return kept;
}

// Loads of a fixed size: a load of bytes one by one waits for each to be stored.
uint64_t load(const uint8_t* bytes, size_t place, uint8_t width) {
    switch (width) {
        case 1: return load_one<uint8_t>(bytes, place);
        case 2: return load_one<uint16_t>(bytes, place);
        case 4: return load_one<uint32_t>(bytes, place);
        case 8: return load_one<uint64_t>(bytes, place);
        default: return 0;
    }
}

template <typename Number>
Number narrow_one(int64_t value) {
    return value == kNull ? std::numeric_limits<Number>::min() : static_cast<Number>(value);
}

template <typename Kept, typename Number>
void widen(const uint8_t* bytes, size_t rows, uint64_t lowest, uint64_t plus, Number* out) {
    for (size_t i = 0; i < rows; ++i) {
        Kept kept = 0;
        std::memcpy(&kept, bytes + i * sizeof kept, sizeof kept);
        out[i] = narrow_one<Number>(
            plus != 0 && kept == 0 ? kNull : static_cast<int64_t>(lowest + kept - plus));
    }
}

}  // namespace

void Packed::seal() {
    Chunk chunk;
    int64_t lowest = kMaxInt, highest = kNull;
    for (const int64_t value : open_) {
        if (value == kNull) {
            chunk.nulls = true;
            continue;
        }
        lowest = std::min(lowest, value);
        highest = std::max(highest, value);
    }
    if (highest == kNull) {  // nulls throughout
        chunk.lowest = kNull;
        chunk.nulls = false;
    } else {
        chunk.lowest = lowest;
        lowest_ = std::min(lowest_, lowest);
        highest_ = std::max(highest_, highest);
        uint64_t span = static_cast<uint64_t>(highest) - static_cast<uint64_t>(lowest);
        if (chunk.nulls && span >= UINT32_MAX) {  // eight bytes hold a null as it is
            chunk.nulls = false;
            chunk.lowest = 0;
            span = UINT64_MAX;
        }
        span += chunk.nulls ? 1 : 0;
        chunk.width = span == 0 ? 0 : span <= 0xff ? 1 : span <= 0xffff ? 2 : span <= UINT32_MAX ? 4 : 8;
    }
    chunk.bytes.reset(new uint8_t[open_.size() * chunk.width]);
    const auto base = static_cast<uint64_t>(chunk.lowest);
    const uint64_t plus = chunk.nulls ? 1 : 0;
    switch (chunk.width) {
        case 1: narrow<uint8_t>(open_, base, plus, chunk.bytes.get()); break;
        case 2: narrow<uint16_t>(open_, base, plus, chunk.bytes.get()); break;
        case 4: narrow<uint32_t>(open_, base, plus, chunk.bytes.get()); break;
        case 8: narrow<uint64_t>(open_, base, plus, chunk.bytes.get()); break;
        default: break;
    }
    chunks_.push_back(std::move(chunk));
    open_.clear();
}

void Packed::make_up() {
    same_ = false;
    const size_t before = rows_ - 1;
    if (first_ != kNull) lowest_ = highest_ = first_;
    for (size_t i = 0; i < before / kChunk; ++i) {
        Chunk chunk;
        chunk.lowest = first_;
        chunks_.push_back(std::move(chunk));
    }
    open_.assign(before % kChunk, first_);
}

int64_t Packed::at(size_t row) const {
    if (same_) return first_;
    const size_t place = row % kChunk;
    if (row / kChunk == chunks_.size()) return open_[place];
    const Chunk& chunk = chunks_[row / kChunk];
    const uint64_t distance = load(chunk.bytes.get(), place, chunk.width);
    if (chunk.nulls && distance == 0) return kNull;
    return static_cast<int64_t>(static_cast<uint64_t>(chunk.lowest) + distance -
                                (chunk.nulls ? 1 : 0));
}

std::optional<int64_t> Packed::constant() const {
    return rows_ != 0 && same_ ? std::optional<int64_t>(first_) : std::nullopt;
}

size_t Packed::width() const {
    int64_t lowest = lowest_, highest = highest_;
    const auto add = [&](int64_t value) {
        if (value == kNull) return;
        lowest = std::min(lowest, value);
        highest = std::max(highest, value);
    };
    if (same_ && rows_ != 0) add(first_);
    for (const int64_t value : open_) add(value);
    const auto holds = [&](auto least) {  // the type's lowest stands for null
        using Number = decltype(least);
        return lowest > std::numeric_limits<Number>::min() &&
               highest <= std::numeric_limits<Number>::max();
    };
    return holds(int8_t{}) ? 1 : holds(int16_t{}) ? 2 : holds(int32_t{}) ? 4 : 8;
}

template <typename Number>
std::vector<Number> Packed::values() const {
    if (same_) return std::vector<Number>(rows_, narrow_one<Number>(first_));
    std::vector<Number> out(rows_);
    Number* at = out.data();
    for (const Chunk& chunk : chunks_) {
        const auto base = static_cast<uint64_t>(chunk.lowest);
        const uint64_t plus = chunk.nulls ? 1 : 0;
        switch (chunk.width) {
            case 1: widen<uint8_t>(chunk.bytes.get(), kChunk, base, plus, at); break;
            case 2: widen<uint16_t>(chunk.bytes.get(), kChunk, base, plus, at); break;
            case 4: widen<uint32_t>(chunk.bytes.get(), kChunk, base, plus, at); break;
            case 8: widen<uint64_t>(chunk.bytes.get(), kChunk, base, plus, at); break;
            default: std::fill(at, at + kChunk, narrow_one<Number>(chunk.lowest));
        }
        at += kChunk;
    }
    std::transform(open_.begin(), open_.end(), at, narrow_one<Number>);
    return out;
}

template std::vector<int8_t> Packed::values() const;
template std::vector<int16_t> Packed::values() const;
template std::vector<int32_t> Packed::values() const;
template std::vector<int64_t> Packed::values() const;

}  // namespace sightline
