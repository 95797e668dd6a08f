#include "passes/peaks.h"

#include <algorithm>

namespace sightline {

Batch find_peaks_without(const Keys& sums, const Keys& blocks, int64_t groups) {
    const int64_t rows = sums.rows;
    const int64_t* const events = sums.columns[0];
    const int64_t* const allocated = sums.columns[1];
    // Without another memory's events between them, an event's number is its row.
    const bool is_dense = rows > 0 && events[0] == 0 && events[rows - 1] == rows - 1;
    const auto row_of = [&](int64_t event) {
        return is_dense ? event : std::lower_bound(events, events + rows, event) - events;
    };
    std::vector<int64_t> highest, change(static_cast<size_t>(rows));
    for (int64_t group = 0; group < groups; ++group) {
        std::fill(change.begin(), change.end(), 0);
        int64_t left_out = 0;  // since before the first event
        for (int64_t block = 0; block < blocks.rows; ++block) {
            if (blocks.columns[3][block] != group) continue;
            const int64_t bytes = blocks.columns[2][block];
            const int64_t made = blocks.columns[0][block], gone = blocks.columns[1][block];
            if (made == kNull) left_out = plus(left_out, bytes);
            for (const auto& [event, size] : {std::pair{made, bytes}, std::pair{gone, -bytes}}) {
                if (event == kNull) continue;
                const int64_t row = row_of(event);
                if (row < 0 || row >= rows) continue;
                int64_t& there = change[static_cast<size_t>(row)];
                there = plus(there, size);
            }
        }
        int64_t most = rows == 0 ? 0 : INT64_MIN;
        for (int64_t row = 0; row < rows; ++row) {
            left_out = plus(left_out, change[static_cast<size_t>(row)]);
            if (allocated[row] != kNull) most = std::max(most, minus(allocated[row], left_out));
        }
        highest.push_back(most);
    }
    Batch batch;
    batch.rows = groups;
    batch.columns = {numbers_column("highest", std::move(highest))};
    return batch;
}

}  // namespace sightline
