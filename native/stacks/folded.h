// Folded stacks, 'root;...;leaf count', as columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "columns/arrow.h"
#include "columns/dictionary.h"

namespace sightline {

// Reads lines whose frames have one meaning each. The rest stays as it is, for Python: lines with
// frames of the device, whose layers depend on the frames below them, and lines that are damaged or
// end in what may be a blank of another script.
class FoldedText {
public:
    void read(std::string_view data);

    // A row a line: `length`, how many frames it has, and `count`.
    Batch lines();
    // The frames of all these lines, root first: `frame`, the row of the text in `texts`.
    Batch frames();
    // The different texts of frames, as bytes.
    Batch texts() const;
    // All other lines that are neither blank nor comments, as bytes.
    const std::vector<std::string_view>& rest() const { return rest_; }

private:
    bool keep(std::string_view line);

    Dictionary texts_;
    std::vector<int64_t> lengths_;
    std::vector<int64_t> counts_;
    std::vector<uint32_t> frames_;
    std::vector<std::string_view> rest_;
};

}  // namespace sightline
