// The peak of a memory without some of its blocks.
#pragma once

#include "columns/arrow.h"
#include "columns/keys.h"

namespace sightline {

// `sums`: event and allocated, in the order of events. `blocks`: allocated and released (numbers of
// events, kNull where there is none), bytes, group. Returns `highest`: for each of `groups` the
// most that is allocated after any event when the group's blocks are left out; 0 without events.
Batch find_peaks_without(const Keys& sums, const Keys& blocks, int64_t groups);

}  // namespace sightline
