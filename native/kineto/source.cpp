#include "kineto/source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#ifdef SIGHTLINE_ISAL
#include <isa-l/igzip_lib.h>
#endif
#ifdef SIGHTLINE_ZSTD
#include <zstd.h>
#endif

namespace sightline {

namespace {

constexpr size_t kBlock = 1 << 20;
constexpr size_t kBlocksAhead = 4;
constexpr size_t kStoredBlock = 256 << 10;

// What expands more than this is no recording: traces pack 10 to 60 fold, deflate's most is 1,032.
constexpr uint64_t kMaxExpansion = 400;
constexpr uint64_t kExpansionMatters = uint64_t{1} << 30;

// A file that is read from front to back.
class File {
public:
    explicit File(const std::string& path) : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        if (file_ < 0) throw std::system_error(errno, std::generic_category(), path);
    }
    ~File() { close(file_); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    size_t read(char* to, size_t size) const {
        for (;;) {
            const ssize_t count = ::read(file_, to, size);
            if (count >= 0) return static_cast<size_t>(count);
            if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "read");
        }
    }
    void rewind() const { lseek(file_, 0, SEEK_SET); }

private:
    int file_;
};

class Plain : public Source {
public:
    explicit Plain(std::unique_ptr<File> file) : file_(std::move(file)) {}

    size_t read(char* to, size_t size) override {
        const size_t count = file_->read(to, size);
        stored += count;
        return count;
    }

private:
    std::unique_ptr<File> file_;
};

// What the compressed formats share: the stored bytes that wait to be unpacked.
class Packed : public Source {
public:
    explicit Packed(std::unique_ptr<File> file) : file_(std::move(file)), in_(kStoredBlock) {}

    size_t read(char* to, size_t size) override {
        if (!early_end.empty() || done_) return 0;
        const size_t count = unpack(to, size);
        made_ += count;
        if (made_ > kExpansionMatters && made_ / kMaxExpansion > stored) {
            early_end = "it expands more than 400 fold, as a decompression bomb does";
        }
        return count;
    }

protected:
    virtual size_t unpack(char* to, size_t size) = 0;

    // More stored bytes; false at the end of the file.
    bool refill() {
        at_ = 0;
        left_ = file_->read(in_.data(), in_.size());
        stored += left_;
        return left_ != 0;
    }

    std::unique_ptr<File> file_;
    std::vector<char> in_;
    size_t at_ = 0;
    size_t left_ = 0;
    bool done_ = false;

private:
    uint64_t made_ = 0;
};

constexpr const char* kCutOff = "the compressed file ends in the middle";

std::string damaged(const std::string& why) {
    return "the compressed data is damaged (" + why + ")";
}

// One or more gzip members, with zero bytes behind each, as Python's gzip module takes them.
class Gzip : public Packed {
public:
    explicit Gzip(std::unique_ptr<File> file) : Packed(std::move(file)) { start(); }
#ifndef SIGHTLINE_ISAL
    ~Gzip() override { inflateEnd(&stream_); }
    Gzip(const Gzip&) = delete;
    Gzip& operator=(const Gzip&) = delete;
#endif

protected:
    size_t unpack(char* to, size_t size) override {
        size_t made = 0;
        while (made < size && early_end.empty()) {
            if (left_ == 0 && !refill()) {
                // Bytes that a decoder holds back would have come by now.
                if (!between_) early_end = kCutOff;
                done_ = true;
                break;
            }
            if (between_ && !next_member()) continue;
            made += inflate_some(to + made, size - made);
        }
        return made;
    }

private:
    // Skips the padding between members. False where there was nothing else in the buffer.
    bool next_member() {
        while (left_ != 0 && in_[at_] == 0) {
            ++at_;
            --left_;
        }
        if (left_ == 0) return false;
        if (in_[at_] != '\x1f') {
            early_end = damaged("bytes that are not gzip follow");
            return false;
        }
        between_ = false;
        start();
        return true;
    }

#ifdef SIGHTLINE_ISAL
    void start() {
        isal_inflate_init(&state_);
        state_.crc_flag = ISAL_GZIP;
    }
    size_t inflate_some(char* to, size_t size) {
        state_.next_in = reinterpret_cast<uint8_t*>(in_.data() + at_);
        state_.avail_in = static_cast<uint32_t>(left_);
        state_.next_out = reinterpret_cast<uint8_t*>(to);
        state_.avail_out = static_cast<uint32_t>(size);
        const int result = isal_inflate(&state_);
        const size_t used = left_ - state_.avail_in;
        at_ += used;
        left_ -= used;
        const size_t made = size - state_.avail_out;
        if (result != ISAL_DECOMP_OK && result != ISAL_END_INPUT) {
            early_end = damaged("error " + std::to_string(result));
        } else if (state_.block_state == ISAL_BLOCK_FINISH) {
            between_ = true;
        } else if (used == 0 && made == 0) {
            early_end = damaged("it does not go on");
        }
        return made;
    }
    inflate_state state_;
#else
    void start() {
        inflateEnd(&stream_);
        stream_ = {};
        if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
    }
    size_t inflate_some(char* to, size_t size) {
        stream_.next_in = reinterpret_cast<Bytef*>(in_.data() + at_);
        stream_.avail_in = static_cast<uInt>(left_);
        stream_.next_out = reinterpret_cast<Bytef*>(to);
        stream_.avail_out = static_cast<uInt>(size);
        const int result = inflate(&stream_, Z_NO_FLUSH);
        const size_t used = left_ - stream_.avail_in;
        at_ += used;
        left_ -= used;
        const size_t made = size - stream_.avail_out;
        if (result == Z_STREAM_END) {
            between_ = true;
        } else if (result != Z_OK && !(result == Z_BUF_ERROR && used + made != 0)) {
            early_end = damaged(stream_.msg != nullptr ? stream_.msg : "it does not go on");
        }
        return made;
    }
    z_stream stream_{};
#endif
    bool between_ = false;  // a member has ended
};

#ifdef SIGHTLINE_ZSTD
class Zstd : public Packed {
public:
    explicit Zstd(std::unique_ptr<File> file)
        : Packed(std::move(file)), context_(ZSTD_createDStream(), ZSTD_freeDStream) {
        if (context_ == nullptr) throw std::bad_alloc();
    }

protected:
    size_t unpack(char* to, size_t size) override {
        ZSTD_outBuffer out{to, size, 0};
        while (out.pos < out.size) {
            if (left_ == 0 && !refill()) {
                if (!whole_) early_end = kCutOff;
                done_ = true;
                break;
            }
            ZSTD_inBuffer in{in_.data() + at_, left_, 0};
            const size_t result = ZSTD_decompressStream(context_.get(), &out, &in);
            at_ += in.pos;
            left_ -= in.pos;
            if (ZSTD_isError(result) != 0) {
                early_end = damaged(ZSTD_getErrorName(result));
                break;
            }
            whole_ = result == 0;
        }
        return out.pos;
    }

private:
    std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> context_;
    bool whole_ = false;
};
#endif

}  // namespace

bool reads_zstd() {
#ifdef SIGHTLINE_ZSTD
    return true;
#else
    return false;
#endif
}

std::unique_ptr<Source> open_source(const std::string& path) {
    auto file = std::make_unique<File>(path);
    std::array<char, 4> magic{};
    const size_t count = file->read(magic.data(), magic.size());
    file->rewind();
    if (count >= 2 && std::memcmp(magic.data(), "\x1f\x8b", 2) == 0) {
        return std::make_unique<Gzip>(std::move(file));
    }
#ifdef SIGHTLINE_ZSTD
    if (count == 4 && std::memcmp(magic.data(), "\x28\xb5\x2f\xfd", 4) == 0) {
        return std::make_unique<Zstd>(std::move(file));
    }
#endif
    return std::make_unique<Plain>(std::move(file));
}

ReadAhead::ReadAhead(std::unique_ptr<Source> source)
    : source_(std::move(source)), thread_([this] { run(); }) {}

ReadAhead::~ReadAhead() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void ReadAhead::run() {
    try {
        for (;;) {
            std::vector<char> block;
            {
                const std::lock_guard lock(mutex_);
                if (!used_.empty()) {
                    block = std::move(used_.back());
                    used_.pop_back();
                }
            }
            block.resize(kBlock);
            size_t size = 0;
            while (size < kBlock) {
                const size_t count = source_->read(block.data() + size, kBlock - size);
                if (count == 0) break;
                size += count;
            }
            block.resize(size);
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return stop_ || ready_.size() < kBlocksAhead; });
            if (stop_) return;
            ended_ = size == 0;
            if (!ended_) ready_.push_back(std::move(block));
            changed_.notify_all();
            if (ended_) return;
        }
    } catch (...) {
        const std::lock_guard lock(mutex_);
        error_ = std::current_exception();
        ended_ = true;
        changed_.notify_all();
    }
}

std::vector<char> ReadAhead::next(std::vector<char> used) {
    std::unique_lock lock(mutex_);
    if (used.capacity() != 0) used_.push_back(std::move(used));
    changed_.wait(lock, [this] { return ended_ || !ready_.empty(); });
    if (!ready_.empty()) {
        std::vector<char> block = std::move(ready_.front());
        ready_.pop_front();
        changed_.notify_all();
        return block;
    }
    if (error_ != nullptr) std::rethrow_exception(error_);
    return {};
}

}  // namespace sightline
