// Nests the ranges of CPU threads into trees, and climbs them (core/algebra/nesting.py, trees.py).
#pragma once

#include <cstddef>

#include "columns/arrow.h"
#include "columns/keys.h"

namespace sightline {

// Ranges have `width` columns that tell threads apart, then start and end, and maybe one that says
// which of the ranges that start and end together is the outer one: the lower, then the one that
// comes first.
//
// Of each range in preorder: `row`, where it was, which is left out if all are in that order; and
// parent_id, depth and subtree_end_id (one past the last descendant), which are left out if no two
// ranges of a thread overlap. Throws std::length_error for more than 2^32 - 1 ranges.
Batch trees(const Keys& ranges, size_t width);

// From each row of `starts` up to the first one whose `value` is above the start's, itself or an
// ancestor: that row, or null. `ranges` are value and row of the parent, `starts` row and value.
Batch climb(const NumberColumns& ranges, const NumberColumns& starts);

// From each row of `starts` up to the first one that is among the `wanted` rows, itself or an
// ancestor: that row, or null. `parents` are the rows of all ranges' parents.
Batch climb_to(const NumberColumns& parents, const NumberColumns& wanted,
               const NumberColumns& starts);

}  // namespace sightline
