// The texts of a dictionary as an Arrow column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
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

// An Arrow column of string views as Python has it.
struct TextColumn {
    int64_t rows = 0;
    const View* views = nullptr;
    const uint8_t* valid = nullptr;  // one bit a row, where some are null
    size_t first_bit = 0;            // of row 0
    std::vector<const char*> blocks;
};

// For each row the place of its text among the different ones, in order of first appearance, as
// uint32 or null; and those texts.
std::pair<Batch, Batch> number_texts(const TextColumn& column);

}  // namespace sightline
