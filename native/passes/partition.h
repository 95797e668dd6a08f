// Cuts windows into disjoint parts by the class that is active (core/algebra/intervals.py).
#pragma once

#include <cstddef>

#include "columns/arrow.h"
#include "columns/keys.h"

namespace sightline {

// Windows have the columns that tell groups apart, start and end, one row a group; intervals the
// same and then a class (from 0, less is none). Of each window and class: how long it was active
// and none before it was, in the columns part_0 and so on; and in `idle` how long none was. Each is
// added up on its own.
Batch partition(const Keys& intervals, const Keys& windows, size_t classes);

}  // namespace sightline
