// A file of which only a window is in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sightline::ctf {

class Window {
public:
    Window() = default;
    ~Window() { close(); }
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    // Opens another file in place of the one before. Throws std::system_error.
    void open(const std::string& path);
    uint64_t file_size() const { return size_; }

    // The bytes from a place on: at least as many as wanted, or less where the file ends; `got` is
    // how many. They stay until the next call. Throws std::system_error.
    const uint8_t* see(uint64_t from, size_t wanted, size_t& got);

private:
    void close();

    int file_ = -1;
    uint64_t size_ = 0;
    std::vector<uint8_t> bytes_;
};

}  // namespace sightline::ctf
