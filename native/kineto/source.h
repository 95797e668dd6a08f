// Reads the bytes of a recording, and decompresses them on the way.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sightline {

class Source {
public:
    virtual ~Source() = default;

    // Up to `size` bytes; 0 at the end, be it early or not.
    virtual size_t read(char* to, size_t size) = 0;

    // Why the bytes end before they should; empty where they do not.
    std::string early_end;

    // How much of the file has been read.
    std::atomic<uint64_t> stored{0};
};

// Opens a file by its first bytes: gzip, zstd where that was built in, or plain.
std::unique_ptr<Source> open_source(const std::string& path);

bool reads_zstd();

// Reads ahead in a thread of its own, so that decompression and parsing overlap.
class ReadAhead {
public:
    explicit ReadAhead(std::unique_ptr<Source> source);
    ~ReadAhead();
    ReadAhead(const ReadAhead&) = delete;
    ReadAhead& operator=(const ReadAhead&) = delete;

    // The next bytes; empty at the end. Takes back a block that was given before, to fill it anew.
    std::vector<char> next(std::vector<char> used);

    const Source& source() const { return *source_; }

private:
    void run();

    std::unique_ptr<Source> source_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::vector<char>> ready_;
    std::vector<std::vector<char>> used_;
    std::exception_ptr error_;
    bool ended_ = false;
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace sightline
