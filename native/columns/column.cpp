#include "columns/column.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "columns/pages.h"

namespace sightline {

namespace {

constexpr size_t kInMemory = 24 << 20;    // a column of more bytes goes to a file
constexpr size_t kWriteBuffer = 1 << 20;  // and is written in pieces of this size
constexpr size_t kFirstRoom = 64 << 10;   // pages that are not written take no memory

[[noreturn]] void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

Bytes::~Bytes() {
    if (data_ != nullptr) unmap_pages(data_, room_);
}

void Bytes::make_room(size_t size) {
    if (size <= room_) return;
    const size_t room = std::max({size, room_ * 2, kFirstRoom});
    data_ = static_cast<char*>(data_ == nullptr ? map_pages(room) : remap_pages(data_, room_, room));
    room_ = room;
}

void Bytes::resize(size_t size) {
    make_room(size);
    if (size > size_) std::memset(data_ + size_, 0, size - size_);
    size_ = size;
}

void Bytes::append(const void* bytes, size_t count) {
    if (count == 0) return;
    make_room(size_ + count);
    std::memcpy(data_ + size_, bytes, count);
    size_ += count;
}

void Bytes::give_back() { Bytes().swap(*this); }

void Bytes::swap(Bytes& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(room_, other.room_);
}

Spill::~Spill() {
    if (mapped_ != nullptr) munmap(mapped_, mapped_size_);
    if (file_ >= 0) close(file_);
}

void Spill::swap(Spill& other) noexcept {
    buffer_.swap(other.buffer_);
    std::swap(flushed_, other.flushed_);
    std::swap(end_, other.end_);
    std::swap(file_, other.file_);
    std::swap(mapped_, other.mapped_);
    std::swap(mapped_size_, other.mapped_size_);
}

void Spill::open(const std::string& folder) {
    std::string name = folder + "/.sightline-XXXXXX";
    file_ = mkstemp(name.data());
    if (file_ < 0) fail("cannot make a temporary file");
    unlink(name.c_str());  // gone when it is closed, whatever happens
}

void Spill::flush() {
    size_t done = 0;
    while (done < buffer_.size()) {
        const ssize_t count = pwrite(file_, buffer_.data() + done, buffer_.size() - done,
                                     static_cast<off_t>(flushed_ + done));
        if (count < 0) {
            if (errno == EINTR) continue;
            fail("cannot write a temporary file");
        }
        done += static_cast<size_t>(count);
    }
    flushed_ += done;
    buffer_.clear();
}

void Spill::write(size_t offset, const void* bytes, size_t count, const std::string& folder) {
    if (file_ < 0 && offset + count > kInMemory) open(folder);
    if (file_ >= 0) {
        if (!buffer_.empty() && (offset > flushed_ + buffer_.size() + kWriteBuffer ||
                                 buffer_.size() >= kWriteBuffer)) {
            flush();
        }
        if (buffer_.empty()) flushed_ = offset;  // what lies between stays a hole
    }
    buffer_.resize(offset - flushed_);
    buffer_.append(bytes, count);
    end_ = offset + count;
}

void* Spill::finish(size_t size) {
    if (file_ < 0) {
        buffer_.resize(size);
        return buffer_.data();
    }
    flush();
    buffer_.give_back();
    if (ftruncate(file_, static_cast<off_t>(size)) != 0) fail("cannot write a temporary file");
    // Private: the few columns that are changed after this are changed in memory only.
    mapped_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file_, 0);
    if (mapped_ == MAP_FAILED) {
        mapped_ = nullptr;
        fail("cannot map a temporary file");
    }
    mapped_size_ = size;
    return mapped_;
}

void Spill::forget() const {
    if (mapped_ != nullptr) madvise(mapped_, mapped_size_, MADV_DONTNEED);
}

}  // namespace sightline
