// The objects of a pickle in little memory: dicts as rows of tables, lists by their content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "columns/dictionary.h"
#include "columns/packed.h"
#include "pickle/value.h"

namespace sightline {

// A vector that never moves what it holds.
template <typename T>
class Chunked {
public:
    void push_back(T value) {
        if (size_ % kChunk == 0) chunks_.emplace_back(new T[kChunk]);
        chunks_.back()[size_ % kChunk] = value;
        ++size_;
    }
    T& operator[](size_t i) { return chunks_[i / kChunk][i % kChunk]; }
    const T& operator[](size_t i) const { return chunks_[i / kChunk][i % kChunk]; }
    size_t size() const { return size_; }

private:
    static constexpr size_t kChunk = 1 << 14;
    std::vector<std::unique_ptr<T[]>> chunks_;
    size_t size_ = 0;
};

// Dicts with the same keys in the same order share a table: a column for each key. Lists of equal
// content share it, so the frames of a call stack are held once.
class Objects {
public:
    static constexpr uint32_t kEmpty = 0;  // the content of an empty list

    Dictionary texts;

    Value add_list();
    Value add_tuple(const Value* items, size_t count);
    Value add_dict();
    Value add_wide(int64_t bits, bool is_float);

    // Puts items at the end of a list.
    void extend(Value list, const Value* items, size_t count);
    // Puts keys and values, one after the other, into a dict.
    void update(Value dict, const Value* pairs, size_t count);

    bool is_empty_list(Value value) const;
    // The content of a list or a tuple: lists of equal items have the same. kEmpty for others.
    uint32_t content_of(Value value) const;
    // Calls `use(item)` for the items of a content, in order, until it returns false.
    template <typename Use>
    void each_item(uint32_t content, Use use) const;

    // The value of a key, nothing where the dict has no such key. Only texts are looked up.
    std::optional<Value> find(Value dict, uint32_t key) const;
    // Keys and values of a dict, in order.
    std::vector<Value> pairs_of(Value dict) const;
    // The number of the table that holds the dict, kLoose where none does, and a table's keys.
    uint32_t shape_of(Value dict) const { return dicts_[payload_of(dict)].shape; }
    const std::vector<uint32_t>& keys_of(uint32_t shape) const { return shapes_[shape].keys; }
    size_t shapes() const { return shapes_.size(); }
    // The value of a dict of a shape, by the key's place there.
    Value value_at(Value dict, size_t place) const {
        const Dict& known = dicts_[payload_of(dict)];
        return shapes_[known.shape].columns[place].at(known.row);
    }

    // An integer that fits 64 bits, nothing for other values.
    std::optional<int64_t> integer(Value value) const;
    // A float, nothing for other values.
    std::optional<double> real(Value value) const;

    static constexpr uint32_t kLoose = UINT32_MAX;

    size_t count() const { return dicts_.size() + lists_.size() + contents_.size(); }
    size_t items() const { return items_; }
    // Contents are numbered from 1 to this.
    size_t contents() const { return contents_.size(); }

private:
    struct Dict {
        uint32_t shape = kLoose;
        uint32_t row = kEmpty;  // in the shape's columns; of a loose one, the content of its pairs
    };
    struct Shape {
        std::vector<uint32_t> keys;
        std::vector<Packed> columns;
        uint32_t rows = 0;
    };
    struct Content {
        const Value* items = nullptr;
        uint32_t count = 0;
        uint32_t before = kEmpty;  // the content that these items follow
    };

    uint32_t intern(uint32_t before, const Value* items, size_t count);
    void grow_slots();
    const Value* keep(const Value* items, size_t count);
    uint32_t shape_with(const Value* pairs, size_t count);

    std::vector<Shape> shapes_;
    std::unordered_map<uint64_t, std::vector<uint32_t>> shapes_by_hash_;
    size_t shape_columns_ = 0;
    uint32_t last_shape_ = kLoose;
    Chunked<Dict> dicts_;
    Chunked<uint32_t> lists_;  // the content of each
    Chunked<Content> contents_;
    Chunked<uint32_t> hashes_;  // of contents
    std::vector<uint32_t> slots_ = std::vector<uint32_t>(1024, 0);  // content + 1, or 0
    std::vector<std::unique_ptr<Value[]>> blocks_;
    size_t block_left_ = 0;
    Value* block_at_ = nullptr;
    size_t items_ = 0;
    std::vector<int64_t> wide_;
};

template <typename Use>
void Objects::each_item(uint32_t content, Use use) const {
    std::vector<uint32_t> parts;
    for (uint32_t at = content; at != kEmpty; at = contents_[at - 1].before) parts.push_back(at);
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        const Content& found = contents_[*part - 1];
        for (uint32_t i = 0; i < found.count; ++i) {
            if (!use(found.items[i])) return;
        }
    }
}

}  // namespace sightline
