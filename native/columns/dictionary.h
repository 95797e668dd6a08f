// Interns texts: each different one is stored once and has a code.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace sightline {

// Texts in order of first appearance; code 0 stands for null, the first text has code 1.
class Dictionary {
public:
    Dictionary();

    uint32_t intern(std::string_view text);

    size_t size() const { return texts_.size(); }
    std::string_view text(uint32_t code) const { return texts_[code - 1]; }

    // Where the texts lie: blocks that never move, and the block of each text.
    using Block = std::shared_ptr<std::vector<char>>;
    const std::vector<Block>& blocks() const { return blocks_; }
    uint32_t block_of(uint32_t code) const { return block_of_[code - 1]; }

private:
    void grow();
    std::string_view keep(std::string_view text);

    std::vector<std::string_view> texts_;
    std::vector<uint32_t> block_of_;
    std::vector<uint32_t> hashes_;  // of each text, so that growing does not hash anew
    std::vector<uint32_t> slots_;   // open addressing; a code, or 0 where free
    std::vector<Block> blocks_;
};

}  // namespace sightline
