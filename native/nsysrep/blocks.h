// The packed blocks of an Nsight Systems report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sightline {

// Part of a file, opened read-only, where blocks lie back to back: each the compressed size and the
// size it unpacks to, as varints, then an LZ4 block. Throws std::system_error where the file cannot
// be opened or read.
class Blocks {
public:
    Blocks(const std::string& path, uint64_t start, uint64_t end);
    ~Blocks();
    Blocks(const Blocks&) = delete;
    Blocks& operator=(const Blocks&) = delete;

    // ok: `bytes` has the block. bad: the block is whole, but does not unpack. end: none is left.
    // cut: what is left is no whole block, or one that claims more than a block can hold.
    enum class Got : uint8_t { ok, bad, end, cut };
    Got next(std::vector<uint8_t>& bytes);

    uint64_t position() const { return at_; }
    uint64_t file_size() const { return file_size_; }

private:
    bool fill(uint64_t from, uint8_t* out, size_t size) const;

    int file_ = -1;
    uint64_t at_, end_, file_size_ = 0;
    std::vector<uint8_t> packed_;
};

}  // namespace sightline
