// Maps an event's `cat` to a category, and a category to a host layer.
#pragma once

#include <cstdint>
#include <string_view>

#include "kineto/chunk_rows.h"

namespace sightline {

enum class Category : uint8_t {
    unknown, kernel, memcpy, memset, op, annotation, python, runtime, driver, overhead, mirror,
    sync, span, processor
};

// Of a name in lower case.
Category category_of(std::string_view name);

// Whether the name of what a device's control processor did is that of work: MTIA's records hold its
// waits and merges beside its kernels, and what a merge does is described nowhere.
bool is_known_work(std::string_view name);

// The host layer of a category, `other` where it is none.
Layer layer_of(Category category);

}  // namespace sightline
