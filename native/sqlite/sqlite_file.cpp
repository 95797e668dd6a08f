#include "sqlite/sqlite_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace sightline {

namespace {

constexpr size_t kHeader = 100;  // of the file, at the start of page 1
constexpr int kDeepest = 24;     // a table of 2^64 rows is less deep
enum Kind : uint8_t { kInterior = 0x05, kLeaf = 0x0d };

}  // namespace

SqliteFile::SqliteFile(const std::string& path) {
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) throw std::system_error(errno, std::generic_category());
    uint8_t head[kHeader];
    struct stat status {};
    if (::pread(file_, head, sizeof head, 0) != static_cast<ssize_t>(sizeof head) ||
        ::fstat(file_, &status) != 0 || std::memcmp(head, "SQLite format 3", 16) != 0) {
        return;
    }
    const size_t size = big_endian<2>(head + 16);
    page_size_ = size == 1 ? 65536 : size;
    const bool is_power = (page_size_ & (page_size_ - 1)) == 0;
    if (!is_power || page_size_ < 512 || page_size_ - head[20] < 480) {
        page_size_ = 0;
        return;
    }
    usable_ = page_size_ - head[20];
    pages_ = static_cast<uint64_t>(status.st_size) / page_size_;
}

SqliteFile::~SqliteFile() {
    if (file_ >= 0) ::close(file_);
}

bool SqliteFile::fill(uint32_t page, size_t bytes, uint8_t* out) const {
    const auto from = static_cast<off_t>((page - 1) * static_cast<uint64_t>(page_size_));
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got = ::pread(file_, out + done, bytes - done, from + static_cast<off_t>(done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += static_cast<size_t>(got);
    }
    return true;
}

bool SqliteFile::read(uint32_t first, size_t count, std::vector<uint8_t>& bytes) const {
    if (page_size_ == 0 || first == 0 || first + count - 1 > pages_) return false;
    bytes.resize(count * page_size_ + kSlack);
    return fill(first, count * page_size_, bytes.data());
}

bool SqliteFile::rows(uint32_t page, size_t& found) const {
    uint8_t head[8];
    if (page == 0 || page > pages_ || !fill(page, sizeof head, head) || head[0] != kLeaf) {
        return false;
    }
    found = big_endian<2>(head + 3);
    return 8 + 2 * found <= usable_;
}

bool SqliteFile::leaves(uint32_t root, std::vector<uint32_t>& found) const {
    found.clear();
    // Page 1 holds the schema; no table that is asked for has its root there.
    uint64_t budget = pages_;
    return root > 1 && collect(root, 0, budget, found);
}

// `budget`: pages that may still be visited; a tree that needs more goes in circles.
bool SqliteFile::collect(uint32_t page, int depth, uint64_t& budget,
                         std::vector<uint32_t>& found) const {
    std::vector<uint8_t> bytes;
    if (depth > kDeepest || budget == 0 || !read(page, 1, bytes)) return false;
    --budget;
    if (bytes[0] == kLeaf) {
        found.push_back(page);
        return true;
    }
    if (bytes[0] != kInterior) return false;
    const size_t count = big_endian<2>(&bytes[3]);
    if (12 + 2 * count > usable_) return false;
    std::vector<uint32_t> children;
    children.reserve(count + 1);
    for (size_t i = 0; i < count; ++i) {
        const size_t at = big_endian<2>(&bytes[12 + 2 * i]);
        if (at + 4 > usable_) return false;
        children.push_back(static_cast<uint32_t>(big_endian<4>(&bytes[at])));
    }
    children.push_back(static_cast<uint32_t>(big_endian<4>(&bytes[8])));
    // All leaves are equally deep, so one look says what the children are.
    if (!read(children.front(), 1, bytes)) return false;
    if (bytes[0] == kLeaf) {
        if (children.size() > budget) return false;
        budget -= children.size();
        found.insert(found.end(), children.begin(), children.end());
        return true;
    }
    return std::all_of(children.begin(), children.end(), [&](uint32_t child) {
        return collect(child, depth + 1, budget, found);
    });
}

bool SqliteFile::cells(const uint8_t* page, std::vector<uint16_t>& offsets) const {
    if (page[0] != kLeaf) return false;
    const size_t count = big_endian<2>(page + 3);
    if (8 + 2 * count > usable_) return false;
    offsets.resize(count);
    for (size_t i = 0; i < count; ++i) {
        offsets[i] = static_cast<uint16_t>(big_endian<2>(page + 8 + 2 * i));
        if (offsets[i] < 8 + 2 * count || offsets[i] >= usable_) return false;
    }
    return true;
}

bool SqliteFile::record(const uint8_t* page, uint16_t offset, Record& out,
                        std::vector<uint8_t>& scratch) const {
    const uint8_t* at = page + offset;
    const uint8_t* const end = page + usable_;
    uint64_t size = 0;
    uint64_t rowid = 0;
    size_t taken = varint(at, end, size);
    if (taken == 0) return false;
    at += taken;
    taken = varint(at, end, rowid);
    if (taken == 0) return false;
    at += taken;
    out.rowid = static_cast<int64_t>(rowid);
    // Section 1.6: a record up to U-35 bytes lies in its page; of a longer one, a part.
    if (size <= usable_ - 35) {
        if (size > static_cast<size_t>(end - at)) return false;
        out.data = at;
        out.size = size;
        return true;
    }
    if (size > pages_ * page_size_) return false;
    const size_t least = (usable_ - 12) * 32 / 255 - 23;
    const size_t fits = least + (size - least) % (usable_ - 4);
    const size_t local = fits <= usable_ - 35 ? fits : least;
    if (local + 4 > static_cast<size_t>(end - at)) return false;
    scratch.assign(at, at + local);
    if (!overflow(static_cast<uint32_t>(big_endian<4>(at + local)), size - local, scratch)) {
        return false;
    }
    out.size = scratch.size();
    scratch.resize(out.size + kSlack);
    out.data = scratch.data();
    return true;
}

bool SqliteFile::overflow(uint32_t page, size_t missing, std::vector<uint8_t>& scratch) const {
    std::vector<uint8_t> bytes;
    while (missing > 0) {
        if (++overflowing_ > pages_ || !read(page, 1, bytes)) return false;
        const size_t part = std::min(missing, usable_ - 4);
        scratch.insert(scratch.end(), bytes.begin() + 4,
                       bytes.begin() + 4 + static_cast<ptrdiff_t>(part));
        missing -= part;
        page = static_cast<uint32_t>(big_endian<4>(bytes.data()));
    }
    return true;
}

}  // namespace sightline
