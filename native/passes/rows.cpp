#include "passes/rows.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <unordered_map>
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
    uint32_t row;
};

// The rows of each group in order of their times, one group after the other; `ties` are the columns
// that decide between equal times.
class Moments {
public:
    Moments(const Keys& events, size_t width, Groups& groups)
        : events_(events), width_(width), time_(events.columns[width]) {
        if (events.rows >= static_cast<int64_t>(kNoRow)) throw std::length_error("too many rows");
        if (width == 0 && is_in_order()) {
            edges_ = {0, static_cast<size_t>(events.rows)};
            return;  // the rows as they are
        }
        std::vector<uint32_t> group_of(static_cast<size_t>(events.rows), kNoRow);
        std::vector<size_t> sizes;
        for_rows(events, width, [&](size_t row) {
            if (time_[row] == kNull) return;
            const int64_t group = groups.of(events, row, true);
            if (group == Groups::kNone) return;
            if (static_cast<size_t>(group) == sizes.size()) sizes.push_back(0);
            ++sizes[static_cast<size_t>(group)];
            group_of[row] = static_cast<uint32_t>(group);
        });
        for (const size_t size : sizes) edges_.push_back(edges_.back() + size);
        rows_.resize(edges_.back());
        std::vector<size_t> next(edges_.begin(), edges_.end());
        for_rows(events, width, [&](size_t row) {
            if (group_of[row] != kNoRow) rows_[next[group_of[row]]++] = static_cast<uint32_t>(row);
        });
        for (size_t group = 0; group + 1 < edges_.size(); ++group) sort(group);
    }

    size_t groups() const { return edges_.size() - 1; }

    // The last one by the moment `at`, or the first one from then on: of those at one moment the
    // last. `near` is a place of the group where it may be.
    int64_t find(size_t group, int64_t at, bool from_then_on, size_t& near) const {
        const size_t first = edges_[group], count = edges_[group + 1] - first;
        const auto time = [&](size_t place) { return time_[row(first + place)]; };
        if (from_then_on) {
            near = until(count, time, at - 1, near);
            if (near == count) return kNull;
            at = time(near);
        }
        near = until(count, time, at, near);
        return near > 0 ? static_cast<int64_t>(row(first + near - 1)) : kNull;
    }

private:
    size_t row(size_t place) const { return rows_.empty() ? place : rows_[place]; }

    bool before(size_t a, size_t b) const {
        if (time_[a] != time_[b]) return time_[a] < time_[b];
        for (size_t c = width_ + 1; c < events_.columns.size(); ++c) {
            const int64_t* tie = events_.columns[c];
            if (tie[a] != tie[b]) return tie[a] < tie[b];
        }
        return a < b;
    }

    bool is_in_order() const {
        const auto rows = static_cast<size_t>(events_.rows);
        for (size_t row = 0; row < rows; ++row) {
            if (time_[row] == kNull || (row > 0 && !before(row - 1, row))) return false;
        }
        return true;
    }

    // Times beside the rows: a comparison then looks at what is near in memory.
    void sort(size_t group) {
        const auto first = rows_.begin() + static_cast<std::ptrdiff_t>(edges_[group]);
        const auto last = rows_.begin() + static_cast<std::ptrdiff_t>(edges_[group + 1]);
        const auto is_before = [&](uint32_t a, uint32_t b) { return before(a, b); };
        if (std::is_sorted(first, last, is_before)) return;
        std::vector<Moment> moments;
        moments.reserve(static_cast<size_t>(last - first));
        for (auto at = first; at != last; ++at) moments.push_back({time_[*at], *at});
        merge_sort(moments.data(), moments.data() + moments.size(),
                   [&](const Moment& a, const Moment& b) {
                       return a.time != b.time ? a.time < b.time : before(a.row, b.row);
                   });
        std::transform(moments.begin(), moments.end(), first,
                       [](const Moment& moment) { return moment.row; });
    }

    const Keys& events_;
    size_t width_;
    const int64_t* time_;
    std::vector<uint32_t> rows_;  // none where they are in order as they are
    std::vector<size_t> edges_{0};
};

// Rows that a search from the one asked last finds at once, and how often it may be further away
// before every id gets a place, which takes a look at all of them.
constexpr uint64_t kLeap = 64;
constexpr size_t kMostLeaps = 1000;

// The last row with each id. Those of one recording count up, in whatever order they come; the
// recordings' own are far apart (core/model/store.py: ID_SHIFT).
class PlacesById {
public:
    PlacesById(const int64_t* id, size_t rows) {
        for (size_t row = 0; row < rows; ++row) {
            if (id[row] != kNull) part_of(id[row]).expect(id[row]);
        }
        for (auto& [number, part] : parts_) part.make_room();
        for (size_t row = rows; row-- > 0;) {  // the first that is put stays
            if (id[row] != kNull) part_of(id[row]).put(id[row], static_cast<uint32_t>(row));
        }
    }

    // kNoRow where there is none.
    uint32_t of(int64_t id) {
        if (last_ == nullptr || id >> kShift != last_number_) {  // none: all ids are null
            const auto found = parts_.find(id >> kShift);
            if (found == parts_.end()) return kNoRow;
            last_number_ = found->first;
            last_ = &found->second;
        }
        return last_->of(id);
    }

private:
    static constexpr int kShift = 40;

    Places& part_of(int64_t id) {
        if (last_ == nullptr || id >> kShift != last_number_) {
            last_number_ = id >> kShift;
            last_ = &parts_[last_number_];
        }
        return *last_;
    }

    std::unordered_map<int64_t, Places> parts_;
    int64_t last_number_ = 0;
    Places* last_ = nullptr;  // that of `last_number_`; an element of the map stays where it is
};

// Searches ids in rising order from the one asked last.
class RowsInOrder {
public:
    RowsInOrder(const int64_t* id, uint64_t count) : id_(id), count_(count) {}

    // Of equal ids the last row, kNoRow where there is none.
    uint32_t of(int64_t id) {
        // Ids of one recording count up: one is mostly as far from the first, or from the one asked
        // last, as its row; or not much nearer, where some were left out.
        auto row = static_cast<uint64_t>(minus(id, id_[0]));
        if (!is_at(id, row)) row = near_ + static_cast<uint64_t>(minus(id, id_[near_]));
        if (!is_at(id, row)) {
            const auto found = until(count_, [&](size_t at) { return id_[at]; }, id, near_);
            if (found == 0) return kNoRow;
            row = found - 1;
            leaps_ += (row > near_ ? row - near_ : near_ - row) > kLeap;
        }
        near_ = row;
        return id_[row] == id ? static_cast<uint32_t>(row) : kNoRow;
    }

    // Whether a place for each id would be better, of which there must not be many more than rows.
    bool leaps() const {
        return leaps_ >= kMostLeaps &&
               static_cast<uint64_t>(minus(id_[count_ - 1], id_[0])) / 8 < count_;
    }

private:
    bool is_at(int64_t id, uint64_t row) const {
        return row < count_ && id_[row] == id && (row + 1 == count_ || id_[row + 1] != id);
    }

    const int64_t* id_;
    uint64_t count_;
    size_t near_ = 0, leaps_ = 0;
};

}  // namespace

Batch row_of(const Keys& ids, const Keys& wanted, bool in_order) {
    const int64_t* id = ids.columns[0];
    const auto count = static_cast<size_t>(ids.rows);
    if (count >= kNoRow) throw std::length_error("too many rows");
    std::vector<int64_t> rows(static_cast<size_t>(wanted.rows), kNull);
    if (count == 0) return answer(std::move(rows));
    RowsInOrder search(id, count);
    std::optional<PlacesById> places;
    for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t asked = wanted.columns[0][i];
        if (asked == kNull) continue;
        if (!places.has_value() && (!in_order || search.leaps())) places.emplace(id, count);
        const uint32_t row = places.has_value() ? places->of(asked) : search.of(asked);
        if (row != kNoRow) rows[i] = row;
    }
    return answer(std::move(rows));
}

Batch first(const Keys& known, const Keys& wanted) {
    const size_t width = wanted.columns.size() - 1;
    const int64_t* number = known.columns[width];
    const auto count = static_cast<size_t>(known.rows);
    if (count >= kNoRow) throw std::length_error("too many rows");
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
    each([&](Places& own, size_t row) { own.put(number[row], static_cast<uint32_t>(row)); });
    std::vector<int64_t> found(static_cast<size_t>(wanted.rows), kNull);
    for (size_t i = 0; i < found.size(); ++i) {
        const int64_t asked = wanted.columns[width][i];
        const int64_t group = asked == kNull ? Groups::kNone : groups.of(wanted, i, false);
        if (group == Groups::kNone) continue;
        const uint32_t row = places[static_cast<size_t>(group)].of(asked);
        if (row != kNoRow) found[i] = row;
    }
    return answer(std::move(found));
}

Batch latest(const Keys& events, const Keys& queries, bool from_then_on) {
    const size_t width = queries.columns.size() - 1;
    Groups groups(width);
    const Moments moments(events, width, groups);
    std::vector<size_t> near(moments.groups(), 0);
    std::vector<int64_t> rows(static_cast<size_t>(queries.rows), kNull);
    for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t at = queries.columns[width][i];
        // Of no columns there is one group, which may not have been counted.
        const int64_t group = at == kNull || near.empty() ? Groups::kNone
                              : width == 0                ? 0
                                                          : groups.of(queries, i, false);
        if (group == Groups::kNone) continue;
        const auto place = static_cast<size_t>(group);
        rows[i] = moments.find(place, at, from_then_on, near[place]);
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
