#include "nsysrep/blocks.h"

#include <fcntl.h>
#include <lz4.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "protobuf/wire.h"

namespace sightline {

namespace {

constexpr size_t kHead = 20;  // two varints of ten bytes
// LZ4 writes at least one byte for 255 (lz4_Block_format.md, "Compression ratio").
constexpr uint64_t kMostRatio = 255;
// A block of 7000 events takes about 1 MB, and blocks of the recordings seen take 3 to 11 times
// less when packed. What claims to take far more than the whole file is a bomb.
constexpr uint64_t kBlockBytes = 64 << 20, kBlockPerFileByte = 16;

}  // namespace

Blocks::Blocks(const std::string& path, uint64_t start, uint64_t end) : at_(start), end_(end) {
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) throw std::system_error(errno, std::generic_category());
    struct stat status {};
    if (::fstat(file_, &status) != 0) {
        const int why = errno;
        ::close(file_);
        throw std::system_error(why, std::generic_category());
    }
    file_size_ = static_cast<uint64_t>(status.st_size);
    end_ = std::min(end_, file_size_);
}

Blocks::~Blocks() { ::close(file_); }

bool Blocks::fill(uint64_t from, uint8_t* out, size_t size) const {
    size_t done = 0;
    while (done < size) {
        const ssize_t got = ::pread(file_, out + done, size - done, static_cast<off_t>(from + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw std::system_error(errno, std::generic_category());
        if (got == 0) return false;
        done += static_cast<size_t>(got);
    }
    return true;
}

Blocks::Got Blocks::next(std::vector<uint8_t>& bytes) {
    if (at_ >= end_) return Got::end;
    uint8_t head[kHead];
    const size_t have = static_cast<size_t>(std::min<uint64_t>(kHead, end_ - at_));
    uint64_t packed = 0, size = 0;
    if (!fill(at_, head, have)) return Got::cut;
    Fields sizes(head, have);
    if (!sizes.varint(packed) || !sizes.varint(size)) return Got::cut;
    const uint64_t from = at_ + static_cast<uint64_t>(sizes.at() - head);
    const uint64_t most = std::max(kBlockBytes, kBlockPerFileByte * file_size_);
    if (packed > end_ - from || packed > LZ4_MAX_INPUT_SIZE || size > LZ4_MAX_INPUT_SIZE ||
        size > kMostRatio * (packed + 1) || size > most) {
        return Got::cut;
    }
    packed_.resize(static_cast<size_t>(packed));
    if (!fill(from, packed_.data(), packed_.size())) return Got::cut;
    at_ = from + packed;
    bytes.resize(static_cast<size_t>(size));
    const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(packed_.data()),
                                        reinterpret_cast<char*>(bytes.data()),
                                        static_cast<int>(packed), static_cast<int>(size));
    return got == static_cast<int>(size) ? Got::ok : Got::bad;
}

}  // namespace sightline
