// Large arrays of their own pages, which go back to the system when they are freed: what the C
// library keeps of them, Polars' allocator cannot use.
#pragma once

#include <cstddef>
#include <memory>

namespace sightline {

// Pages for so many bytes, not filled. Throws std::bad_alloc.
void* map_pages(size_t bytes);

// The same bytes in pages for more of them, moved without a copy where the system can.
void* remap_pages(void* data, size_t before, size_t bytes);

void unmap_pages(void* data, size_t bytes);

constexpr size_t kLargeArray = 1 << 20;  // bytes

// Room for so many values, which are not filled.
template <typename T>
std::shared_ptr<T[]> make_array(size_t count) {
    const size_t bytes = count * sizeof(T);
    if (bytes < kLargeArray) return std::shared_ptr<T[]>(new T[count]);
    return std::shared_ptr<T[]>(static_cast<T*>(map_pages(bytes)),
                                [bytes](T* data) { unmap_pages(data, bytes); });
}

}  // namespace sightline
