#include "columns/pages.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace sightline {

void* map_pages(size_t bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    return data;
}

void* remap_pages(void* data, size_t before, size_t bytes) {
#ifdef MREMAP_MAYMOVE
    void* moved = mremap(data, before, bytes, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) throw std::bad_alloc();
#else
    void* moved = map_pages(bytes);
    std::memcpy(moved, data, before);
    unmap_pages(data, before);
#endif
    return moved;
}

void unmap_pages(void* data, size_t bytes) { munmap(data, bytes); }

}  // namespace sightline
