// Reads the numbers of DWARF; what lies beyond the end makes the reader fail, and reads as 0.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace sightline {

class DwarfBytes {
public:
    DwarfBytes(std::string_view data, size_t at) : data_(data), at_(at) { failed_ = at > data.size(); }

    bool failed() const { return failed_; }
    bool at_end() const { return failed_ || at_ >= data_.size(); }
    size_t at() const { return at_; }
    void stop_at(size_t end) { if (end < data_.size()) data_ = data_.substr(0, end); }

    template <class T>
    T read() {
        T value{};
        if (failed_ || at_ > data_.size() || data_.size() - at_ < sizeof(T)) {
            failed_ = true;
            return value;
        }
        std::memcpy(&value, data_.data() + at_, sizeof(T));
        at_ += sizeof(T);
        return value;
    }

    uint64_t unsigned_number() {
        uint64_t value = 0;
        for (int shift = 0; !failed_; shift += 7) {
            const uint8_t byte = read<uint8_t>();
            if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
            if (!(byte & 0x80)) break;
        }
        return value;
    }

    int64_t signed_number() {
        uint64_t value = 0;
        int shift = 0;
        uint8_t byte = 0;
        do {
            byte = read<uint8_t>();
            if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
            shift += 7;
        } while (!failed_ && byte & 0x80);
        if (shift < 64 && byte & 0x40) value |= ~uint64_t{0} << shift;
        return static_cast<int64_t>(value);
    }

    std::string_view take(uint64_t size) {
        if (failed_ || at_ > data_.size() || size > data_.size() - at_) {
            failed_ = true;
            return {};
        }
        const std::string_view found = data_.substr(at_, size);
        at_ += size;
        return found;
    }

private:
    std::string_view data_;
    size_t at_;
    bool failed_;
};

}  // namespace sightline
