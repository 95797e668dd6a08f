// Sorts nearly sorted rows, and nests sorted ranges: parents, depths, subtree ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sightline {

constexpr uint32_t kNoRow = UINT32_MAX;

// Sorts stably by merging the runs that are in order already; a trace is written nearly in order,
// so there are few of them.
template <typename Item, typename Less>
void merge_sort(Item* first, Item* last, Less less) {
    std::vector<Item*> ends{first};
    for (Item* at = first; at != last;) {
        Item* end = at + 1;
        while (end != last && !less(*end, *(end - 1))) ++end;
        // Short runs are not worth a merge of their own.
        if (end - at < 32 && end != last) {
            end = std::min(at + 32, last);
            std::stable_sort(at, end, less);
        }
        ends.push_back(end);
        at = end;
    }
    while (ends.size() > 2) {
        std::vector<Item*> merged{first};
        for (size_t i = 0; i + 2 < ends.size(); i += 2) {
            if (less(*ends[i + 1], *(ends[i + 1] - 1))) {
                std::inplace_merge(ends[i], ends[i + 1], ends[i + 2], less);
            }
            merged.push_back(ends[i + 2]);
        }
        if (merged.back() != last) merged.push_back(last);
        ends = std::move(merged);
    }
}

// Nesting of the ranges [from, to) of one thread, which are sorted by start, longest first. A
// range belongs to the innermost range that is open when it starts and holds at least half of it:
// clocks in µs round a child past its parent's end, but a step that begins while the call that
// marks it is still returning is no part of that call. `end(i)`, `start(i)` give ns.
template <typename Start, typename End>
void nest(uint32_t from, uint32_t to, Start start, End end, uint32_t* parent, uint32_t* depth,
          uint32_t* subtree_end) {
    std::vector<uint32_t> open;
    for (uint32_t row = from; row < to; ++row) {
        const int64_t begin = start(row);
        // As unsigned: the length of a range may exceed int64.
        const uint64_t length = static_cast<uint64_t>(end(row)) - static_cast<uint64_t>(begin);
        const auto half = static_cast<int64_t>(static_cast<uint64_t>(begin) + (length + 1) / 2);
        while (!open.empty() && (end(open.back()) <= begin || end(open.back()) < half)) {
            subtree_end[open.back()] = row;
            open.pop_back();
        }
        parent[row] = open.empty() ? kNoRow : open.back();
        depth[row] = static_cast<uint32_t>(open.size());
        open.push_back(row);
    }
    for (const uint32_t row : open) subtree_end[row] = to;
}

}  // namespace sightline
