#include "perfetto/rows.h"

#include <string_view>

namespace sightline::perfetto {

constexpr std::string_view kReal = "value";  // the column of real numbers, in all tables

Batch Rows::take() {
    Batch batch;
    batch.rows = static_cast<int64_t>(rows_);
    for (size_t i = 0; i < columns_.size(); ++i) {
        batch.columns.push_back(numbers_column(names_[i], columns_[i].values<int64_t>()));
        if (std::string_view(names_[i]) == kReal) batch.columns.back()->format = "g";
        columns_[i] = Packed();
    }
    rows_ = 0;
    return batch;
}

}  // namespace sightline::perfetto
