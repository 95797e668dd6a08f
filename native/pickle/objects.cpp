#include "pickle/objects.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace sightline {

namespace {

constexpr size_t kBlock = 1 << 15;  // items of contents that are kept together
// Snapshots have some 20 different sets of keys, with up to 20 keys each. A file with thousands was
// made to take memory: its dicts are kept as pairs.
constexpr size_t kMostShapes = 4096, kMostColumns = 1 << 16, kMostKeys = 64;
// Looked through for a key in a dict that is kept as pairs.
constexpr size_t kMostLookedAt = 4096;
constexpr size_t kMostRows = UINT32_MAX - 1;

uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
    return hash ^ (hash >> 32);
}

}  // namespace

Value Objects::add_list() {
    lists_.push_back(kEmpty);
    return make_value(Tag::list, lists_.size() - 1);
}

Value Objects::add_tuple(const Value* items, size_t count) {
    return make_value(Tag::tuple, intern(kEmpty, items, count));
}

Value Objects::add_dict() {
    dicts_.push_back({});
    return make_value(Tag::dict, dicts_.size() - 1);
}

Value Objects::add_wide(int64_t bits, bool is_float) {
    wide_.push_back(bits);
    return make_value(Tag::wide, (wide_.size() - 1) << 1 | (is_float ? 1 : 0));
}

const Value* Objects::keep(const Value* items, size_t count) {
    if (count > block_left_) {
        const size_t size = std::max(count, kBlock);
        blocks_.emplace_back(new Value[size]);
        block_at_ = blocks_.back().get();
        block_left_ = size;
    }
    Value* const kept = block_at_;
    std::copy(items, items + count, kept);
    block_at_ += count;
    block_left_ -= count;
    items_ += count;
    return kept;
}

uint32_t Objects::intern(uint32_t before, const Value* items, size_t count) {
    if (count == 0) return before;
    uint64_t hash = mixed(count, before);
    for (size_t i = 0; i < count; ++i) hash = mixed(hash, static_cast<uint64_t>(items[i]));
    const auto short_hash = static_cast<uint32_t>(hash >> 16);
    const size_t mask = slots_.size() - 1;
    size_t slot = short_hash & mask;
    for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
        const Content& known = contents_[slots_[slot] - 1];
        if (hashes_[slots_[slot] - 1] == short_hash && known.count == count &&
            known.before == before && std::equal(items, items + count, known.items)) {
            return slots_[slot];
        }
    }
    if (contents_.size() >= kMostRows || count > UINT32_MAX) throw std::length_error("too large");
    contents_.push_back({keep(items, count), static_cast<uint32_t>(count), before});
    hashes_.push_back(short_hash);
    const auto number = static_cast<uint32_t>(contents_.size());
    slots_[slot] = number;
    if (contents_.size() * 2 > slots_.size()) grow_slots();
    return number;
}

void Objects::grow_slots() {
    std::vector<uint32_t> slots(slots_.size() * 2, 0);
    const size_t mask = slots.size() - 1;
    for (size_t i = 0; i < contents_.size(); ++i) {
        size_t slot = hashes_[i] & mask;
        while (slots[slot] != 0) slot = (slot + 1) & mask;
        slots[slot] = static_cast<uint32_t>(i + 1);
    }
    slots_ = std::move(slots);
}

void Objects::extend(Value list, const Value* items, size_t count) {
    uint32_t& content = lists_[payload_of(list)];
    content = intern(content, items, count);
}

uint32_t Objects::shape_with(const Value* pairs, size_t count) {
    const auto same = [&](const Shape& shape) {
        if (shape.keys.size() != count) return false;
        for (size_t i = 0; i < count; ++i) {
            if (pairs[2 * i] != make_value(Tag::text, shape.keys[i])) return false;
        }
        return true;
    };
    if (last_shape_ != kLoose && same(shapes_[last_shape_])) return last_shape_;
    uint64_t hash = count;
    for (size_t i = 0; i < count; ++i) {
        if (tag_of(pairs[2 * i]) != Tag::text) return kLoose;
        hash = mixed(hash, payload_of(pairs[2 * i]));
    }
    std::vector<uint32_t>& known = shapes_by_hash_[hash];
    for (const uint32_t shape : known) {
        if (same(shapes_[shape])) return last_shape_ = shape;
    }
    if (shapes_.size() >= kMostShapes || shape_columns_ + count > kMostColumns) return kLoose;
    Shape made;
    for (size_t i = 0; i < count; ++i) {
        made.keys.push_back(static_cast<uint32_t>(payload_of(pairs[2 * i])));
    }
    made.columns.resize(count);
    shape_columns_ += count;
    shapes_.push_back(std::move(made));
    known.push_back(static_cast<uint32_t>(shapes_.size() - 1));
    return last_shape_ = known.back();
}

void Objects::update(Value dict, const Value* pairs, size_t count) {
    Dict& known = dicts_[payload_of(dict)];
    if (count == 0) return;
    if (known.shape == kLoose && known.row == kEmpty && count <= kMostKeys) {
        const uint32_t shape = shape_with(pairs, count);
        if (shape != kLoose && shapes_[shape].rows < kMostRows) {
            Shape& table = shapes_[shape];
            for (size_t i = 0; i < count; ++i) table.columns[i].append(pairs[2 * i + 1]);
            known = {shape, table.rows++};
            return;
        }
    }
    if (known.shape != kLoose) {
        const std::vector<Value> present = pairs_of(dict);
        known = {kLoose, intern(kEmpty, present.data(), present.size())};
    }
    known.row = intern(known.row, pairs, 2 * count);
}

bool Objects::is_empty_list(Value value) const {
    return tag_of(value) == Tag::list && lists_[payload_of(value)] == kEmpty;
}

uint32_t Objects::content_of(Value value) const {
    if (tag_of(value) == Tag::list) return lists_[payload_of(value)];
    return tag_of(value) == Tag::tuple ? static_cast<uint32_t>(payload_of(value)) : kEmpty;
}

std::vector<Value> Objects::pairs_of(Value dict) const {
    const Dict& known = dicts_[payload_of(dict)];
    std::vector<Value> pairs;
    if (known.shape == kLoose) {
        each_item(known.row, [&](Value item) {
            pairs.push_back(item);
            return pairs.size() < 2 * kMostLookedAt;
        });
        return pairs;
    }
    const Shape& table = shapes_[known.shape];
    for (size_t i = 0; i < table.keys.size(); ++i) {
        pairs.push_back(make_value(Tag::text, table.keys[i]));
        pairs.push_back(table.columns[i].at(known.row));
    }
    return pairs;
}

std::optional<Value> Objects::find(Value dict, uint32_t key) const {
    const Dict& known = dicts_[payload_of(dict)];
    if (known.shape != kLoose) {
        const Shape& table = shapes_[known.shape];
        for (size_t i = table.keys.size(); i-- > 0;) {
            if (table.keys[i] == key) return table.columns[i].at(known.row);
        }
        return std::nullopt;
    }
    const std::vector<Value> pairs = pairs_of(dict);
    for (size_t i = pairs.size() / 2; i-- > 0;) {
        if (pairs[2 * i] == make_value(Tag::text, key)) return pairs[2 * i + 1];
    }
    return std::nullopt;
}

std::optional<int64_t> Objects::integer(Value value) const {
    if (tag_of(value) == Tag::integer) return integer_of(value);
    if (tag_of(value) == Tag::wide && (payload_of(value) & 1) == 0) {
        return wide_[payload_of(value) >> 1];
    }
    return std::nullopt;
}

std::optional<double> Objects::real(Value value) const {
    if (tag_of(value) != Tag::wide || (payload_of(value) & 1) == 0) return std::nullopt;
    double number = 0;
    std::memcpy(&number, &wide_[payload_of(value) >> 1], sizeof number);
    return number;
}

}  // namespace sightline
