#include "passes/rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "columns/groups.h"
#include "columns/order.h"
#include "columns/places.h"
#include "columns/radix.h"
#include "columns/search.h"

namespace sightline {

namespace {

// The rows as the one column of a batch.
Batch answer(std::vector<int64_t> rows) {
    Batch batch;
    batch.rows = static_cast<int64_t>(rows.size());
    batch.columns = {numbers_column("row", std::move(rows))};
    return batch;
}

struct Moment {
    int64_t time;
    int64_t row;
};

// The events of each group in order; `ties` are the columns that decide between equal times.
std::vector<std::vector<Moment>> by_group(const Keys& events, size_t width, Groups& groups) {
    std::vector<std::vector<Moment>> found;
    const int64_t* time = events.columns[width];
    for_rows(events, width, [&](size_t row) {
        if (time[row] == kNull) return;
        const int64_t group = groups.of(events, row, true);
        if (group == Groups::kNone) return;
        if (static_cast<size_t>(group) == found.size()) found.emplace_back();
        found[static_cast<size_t>(group)].push_back({time[row], static_cast<int64_t>(row)});
    });
    const auto before = [&](const Moment& a, const Moment& b) {
        if (a.time != b.time) return a.time < b.time;
        for (size_t c = width + 1; c < events.columns.size(); ++c) {
            const int64_t* tie = events.columns[c];
            if (tie[a.row] != tie[b.row]) return tie[a.row] < tie[b.row];
        }
        return a.row < b.row;
    };
    for (auto& moments : found) {
        merge_sort(moments.data(), moments.data() + moments.size(), before);
    }
    return found;
}

}  // namespace

Batch row_of(const Keys& ids, const Keys& wanted) {
    // Ids of one recording count up, so few stretches of consecutive ones hold all of them.
    std::vector<Moment> stretches;
    const int64_t* id = ids.columns[0];
    for (int64_t row = 0; row < ids.rows; ++row) {
        if (row == 0 || id[row] != id[row - 1] + 1) stretches.push_back({id[row], row});
    }
    std::vector<int64_t> rows(static_cast<size_t>(wanted.rows), kNull);
    size_t near = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t value = wanted.columns[0][i];
        if (value == kNull) continue;
        near = until(stretches, value, near);
        if (near == 0) continue;
        const int64_t end = near < stretches.size() ? stretches[near].row : ids.rows;
        const Moment& stretch = stretches[near - 1];
        // The difference is not negative; of damaged ids it may be beyond int64.
        const uint64_t place =
            static_cast<uint64_t>(value) - static_cast<uint64_t>(stretch.time);
        if (place < static_cast<uint64_t>(end - stretch.row)) {
            rows[i] = stretch.row + static_cast<int64_t>(place);
        }
    }
    return answer(std::move(rows));
}

Batch first(const Keys& known, const Keys& wanted) {
    const size_t width = wanted.columns.size() - 1;
    const int64_t* number = known.columns[width];
    const auto count = static_cast<size_t>(known.rows);
    Groups groups(width);
    std::vector<Places> places;
    const auto each = [&](const auto& work) {
        for (size_t row = 0; row < count; ++row) {
            const int64_t group = number[row] == kNull ? Groups::kNone : groups.of(known, row, true);
            if (group == Groups::kNone) continue;
            if (static_cast<size_t>(group) == places.size()) places.emplace_back();
            work(places[static_cast<size_t>(group)], row);
        }
    };
    each([&](Places& own, size_t row) { own.expect(number[row]); });
    for (Places& own : places) own.make_room();
    each([&](Places& own, size_t row) { own.put(number[row], static_cast<int64_t>(row)); });
    std::vector<int64_t> found(static_cast<size_t>(wanted.rows), kNull);
    for (size_t i = 0; i < found.size(); ++i) {
        const int64_t asked = wanted.columns[width][i];
        const int64_t group = asked == kNull ? Groups::kNone : groups.of(wanted, i, false);
        if (group != Groups::kNone) found[i] = places[static_cast<size_t>(group)].of(asked);
    }
    return answer(std::move(found));
}

Batch latest(const Keys& events, const Keys& queries) {
    const size_t width = queries.columns.size() - 1;
    Groups groups(width);
    const auto moments = by_group(events, width, groups);
    std::vector<size_t> near(moments.size(), 0);
    std::vector<int64_t> rows(static_cast<size_t>(queries.rows), kNull);
    for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t at = queries.columns[width][i];
        const int64_t group = at == kNull ? Groups::kNone : groups.of(queries, i, false);
        if (group == Groups::kNone) continue;
        size_t& place = near[static_cast<size_t>(group)];
        place = until(moments[static_cast<size_t>(group)], at, place);
        if (place > 0) rows[i] = moments[static_cast<size_t>(group)][place - 1].row;
    }
    return answer(std::move(rows));
}

std::pair<Batch, Batch> number(const Keys& rows) {
    Groups groups(rows.columns.size(), true);
    std::vector<int64_t> numbers(static_cast<size_t>(rows.rows)), firsts;
    for (size_t row = 0; row < numbers.size(); ++row) {
        numbers[row] = groups.of(rows, row, true);
        if (static_cast<size_t>(numbers[row]) == firsts.size()) {
            firsts.push_back(static_cast<int64_t>(row));
        }
    }
    return {answer(std::move(numbers)), answer(std::move(firsts))};
}

}  // namespace sightline
