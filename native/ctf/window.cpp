#include "ctf/window.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace sightline::ctf {

namespace {

// Larger windows are no faster: a packet of LTTng's has 4 KiB to 4 MiB.
constexpr size_t kWindow = 256 << 10;

[[noreturn]] void fail() { throw std::system_error(errno, std::generic_category()); }

}  // namespace

void Window::close() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
}

void Window::open(const std::string& path) {
    close();
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) fail();
    struct stat status {};
    if (::fstat(file_, &status) != 0) fail();
    size_ = static_cast<uint64_t>(status.st_size);
}

const uint8_t* Window::see(uint64_t from, size_t wanted, size_t& got) {
    const uint64_t left = from < size_ ? size_ - from : 0;
    const size_t size = static_cast<size_t>(std::min<uint64_t>(left, std::max(wanted, kWindow)));
    // Whole numbers are read from where a narrow one begins: there are bytes behind the last.
    if (bytes_.size() < size + 8) bytes_.resize(size + 8);
    got = 0;
    while (got < size) {
        const ssize_t count = ::pread(file_, bytes_.data() + got, size - got,
                                      static_cast<off_t>(from + got));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail();
        if (count == 0) break;
        got += static_cast<size_t>(count);
    }
    return bytes_.data();
}

}  // namespace sightline::ctf
