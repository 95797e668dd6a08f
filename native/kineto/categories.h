// Maps an event's `cat` to a category, and a category to a host layer.
#pragma once

#include <cstdint>
#include <string_view>

#include "kineto/chunk_rows.h"

namespace sightline {

enum class Category : uint8_t {
    unknown, kernel, memcpy, memset, op, annotation, python, runtime, driver, overhead, mirror,
    sync, span
};

// Of a name in lower case.
Category category_of(std::string_view name);

// The host layer of a category, `other` where it is none.
Layer layer_of(Category category);

}  // namespace sightline
