// How much of the time before a moment, or between two, intervals cover (core/algebra/intervals.py).
#pragma once

#include "columns/arrow.h"
#include "columns/keys.h"

namespace sightline {

// For each query, how many ns of its group the intervals cover before its moment, overlaps counted
// once; of a query with two moments, how many more at the second than at the first.
//
// The moments are the last columns of a query, those before them are its group; an interval has the
// same group and then its start and end. What lacks a group or a time covers nothing and is told 0.
Batch cover(const Keys& intervals, const Keys& queries);

}  // namespace sightline
