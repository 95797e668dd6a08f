// Columns of a whole trace: small ones in memory, large ones in an unlinked temporary file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sightline {

// Bytes in memory that grow without a copy: columns that all grow would else be copied, and new pages
// be made for them, again and again.
class Bytes {
public:
    Bytes() = default;
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;
    ~Bytes();

    char* data() const { return data_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }

    // More bytes are 0.
    void resize(size_t size);
    void append(const void* bytes, size_t count);
    void clear() { size_ = 0; }
    void give_back();
    void swap(Bytes& other) noexcept;

private:
    void make_room(size_t size);

    char* data_ = nullptr;
    size_t size_ = 0;
    size_t room_ = 0;
};

// Bytes that only grow, then are read. A part that was never written reads as 0 and costs nothing.
class Spill {
public:
    Spill() = default;
    Spill(const Spill&) = delete;
    Spill& operator=(const Spill&) = delete;
    Spill(Spill&& other) noexcept { swap(other); }
    Spill& operator=(Spill&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Spill();

    // Writes at an offset that is not before the end of what was written.
    void write(size_t offset, const void* bytes, size_t count, const std::string& folder);

    // All bytes, `size` of them; nothing is written after that.
    void* finish(size_t size);

    // Gives back the memory of pages that were read; they are read anew when needed.
    void forget() const;

    void clear() { *this = Spill(); }
    bool empty() const { return end_ == 0; }

private:
    void swap(Spill& other) noexcept;
    void open(const std::string& folder);
    void flush();

    Bytes buffer_;  // all of it, or behind `flushed_` once there is a file
    size_t flushed_ = 0;
    size_t end_ = 0;
    int file_ = -1;
    void* mapped_ = nullptr;
    size_t mapped_size_ = 0;
};

// A column that grows piece by piece. `data()` is null where every row is 0.
template <typename T>
class Column {
public:
    void append(const std::vector<T>& values, size_t rows, const std::string& folder) {
        if (!values.empty()) {
            spill_.write(rows_ * sizeof(T), values.data(), values.size() * sizeof(T), folder);
        }
        rows_ += rows;
    }
    void finish() {
        if (!spill_.empty()) data_ = static_cast<T*>(spill_.finish(rows_ * sizeof(T)));
    }
    size_t rows() const { return rows_; }
    T* data() const { return data_; }
    T at(size_t row) const { return data_ == nullptr ? T{} : data_[row]; }
    void forget() const { spill_.forget(); }
    void clear() {
        spill_.clear();
        data_ = nullptr;
    }

private:
    Spill spill_;
    size_t rows_ = 0;
    T* data_ = nullptr;
};

}  // namespace sightline
