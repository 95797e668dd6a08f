// Columns of one batch of events, which grow row by row and can be cut back to an earlier row.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "columns/arrow.h"
#include "ctf/plan.h"

namespace sightline::ctf {

class GrowingColumn {
public:
    explicit GrowingColumn(Kind kind);

    // The lowest bytes of a number, as many as the column is wide.
    void append(uint64_t value) {
        const size_t at = used_;
        if (at + sizeof value > bytes_.size()) grow();
        used_ = at + width_;
        std::memcpy(bytes_.data() + at, &value, sizeof value);
    }
    void append_text(std::string_view text);
    void append_null();

    size_t rows() const { return used_ / width_; }
    size_t bytes() const { return used_ + texts_.size(); }

    // Only the first rows stay.
    void cut(size_t rows);

    // All rows as a column, which is empty then.
    std::shared_ptr<BatchColumn> take(const std::string& name);

private:
    void grow();

    Kind kind_;
    size_t width_ = 1, used_ = 0;
    size_t likely_ = 0;  // bytes of the batch before
    std::vector<uint8_t> bytes_;
    std::vector<char> texts_;        // those that are longer than a view
    std::vector<size_t> nulls_;      // rows
};

}  // namespace sightline::ctf
