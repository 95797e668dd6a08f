// Rows of the timeline: what overlaps on one gets rows of its own (core/algebra/lanes.py).
#pragma once

#include "columns/arrow.h"
#include "columns/keys.h"

namespace sightline {

// Events have the columns track, level, start and end. In order of track, lane and start, of those
// that start together the longest first, then the earlier row: `row`, where each was, and `lane`.
// Lanes of a track are numbered from 0, one level after the other; within one nothing overlaps, and
// an event of no length takes 1. Throws std::length_error for more than 2^32 - 2 events.
Batch lanes(const Keys& events);

}  // namespace sightline
