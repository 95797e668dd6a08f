// The texts of a dictionary as an Arrow column.
#pragma once

#include <cstdint>
#include <vector>

#include "columns/arrow.h"
#include "columns/dictionary.h"

namespace sightline {

// A view of each text at its code; the one at 0, which stands for null, is empty.
std::vector<View> views_of(const Dictionary& texts);

// How long the blocks are that the views point into.
std::vector<int64_t> sizes_of(const Dictionary& texts);

// One column `text` with all texts, row = code - 1. The format is "vu", or "vz" where they need not
// be UTF-8. The batch shares the dictionary's blocks: no text is to be added while it is used.
Batch all_texts(const Dictionary& texts, const char* format);

}  // namespace sightline
