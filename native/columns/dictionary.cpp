#include "columns/dictionary.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>

namespace sightline {

namespace {

constexpr size_t kFirstBlock = 4 << 10;
constexpr size_t kMaxBlock = 1 << 20;

// Drawn once per process: texts that collide on purpose cannot be made ahead.
uint64_t seed() {
    static const uint64_t drawn = [] {
        std::random_device device;
        return (static_cast<uint64_t>(device()) << 32 | device()) | 1;
    }();
    return drawn;
}

uint64_t mix(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint32_t hash_of(std::string_view text) {
    uint64_t state = seed() ^ text.size();
    const char* at = text.data();
    size_t left = text.size();
    while (left > 8) {
        uint64_t word = 0;
        std::memcpy(&word, at, 8);
        state = mix(state ^ word, 0x9E3779B97F4A7C15u);
        at += 8;
        left -= 8;
    }
    // The last eight bytes: of a longer text they overlap what was read, and of a shorter one two
    // halves do, which costs less than a copy of a length that only shows at run time.
    uint64_t word = 0;
    if (text.size() >= 8) {
        std::memcpy(&word, at + left - 8, 8);
    } else if (left >= 4) {
        uint32_t halves[2];
        std::memcpy(halves, at, 4);
        std::memcpy(halves + 1, at + left - 4, 4);
        word = static_cast<uint64_t>(halves[1]) << 32 | halves[0];
    } else if (left != 0) {
        const auto byte = [at](size_t i) { return static_cast<uint64_t>(static_cast<unsigned char>(at[i])); };
        word = byte(0) | byte(left / 2) << 8 | byte(left - 1) << 16;
    }
    return static_cast<uint32_t>(mix(state ^ word, 0xD6E8FEB86659FD93u) >> 16);
}

}  // namespace

Dictionary::Dictionary() : slots_(256, 0) {}

uint32_t Dictionary::intern(std::string_view text) {
    const uint32_t hash = hash_of(text);
    const size_t mask = slots_.size() - 1;
    size_t slot = hash & mask;
    while (slots_[slot] != 0) {
        const uint32_t code = slots_[slot];
        if (hashes_[code - 1] == hash && texts_[code - 1] == text) return code;
        slot = (slot + 1) & mask;
    }
    if (texts_.size() >= UINT32_MAX - 1) throw std::length_error("too many different texts");
    const std::string_view kept = keep(text);
    texts_.push_back(kept);
    block_of_.push_back(static_cast<uint32_t>(blocks_.size() - 1));
    hashes_.push_back(hash);
    const auto code = static_cast<uint32_t>(texts_.size());
    slots_[slot] = code;
    if (texts_.size() * 2 > slots_.size()) grow();
    return code;
}

void Dictionary::grow() {
    std::vector<uint32_t> slots(slots_.size() * 2, 0);
    const size_t mask = slots.size() - 1;
    for (size_t i = 0; i < hashes_.size(); ++i) {
        size_t slot = hashes_[i] & mask;
        while (slots[slot] != 0) slot = (slot + 1) & mask;
        slots[slot] = static_cast<uint32_t>(i + 1);
    }
    slots_ = std::move(slots);
}

std::string_view Dictionary::keep(std::string_view text) {
    if (blocks_.empty() || blocks_.back()->capacity() - blocks_.back()->size() < text.size()) {
        const size_t usual =
            blocks_.empty() ? kFirstBlock : std::min(kMaxBlock, blocks_.back()->capacity() * 2);
        blocks_.push_back(std::make_shared<std::vector<char>>());
        blocks_.back()->reserve(std::max(usual, text.size()));
    }
    std::vector<char>& block = *blocks_.back();
    const size_t at = block.size();
    block.insert(block.end(), text.begin(), text.end());  // within capacity: nothing moves
    return {block.data() + at, text.size()};
}

}  // namespace sightline
