// Finds rows by id, by number, and by group and time (core/algebra/lookup.py, core/algebra/latest.py).
#pragma once

#include <utility>

#include "columns/arrow.h"
#include "columns/keys.h"

namespace sightline {

// For each wanted id the row of `ids` that holds it, of equal ones the last, or null. `in_order`: ids
// only rise, and none is missing.
Batch row_of(const Keys& ids, const Keys& wanted, bool in_order);

// For each wanted row the first one of `known` with the same number, the last column, in the same
// group, the columns before it; or null.
Batch first(const Keys& known, const Keys& wanted);

// For each query the row of `events` that came last in its group by its moment, or null; or the one
// that came first `from_then_on`.
//
// The last column of a query is its moment, those before it are its group; an event has the same
// and after them what decides between those of one moment, then its place does. What has no group
// or no moment is found by none and finds none.
Batch latest(const Keys& events, const Keys& queries, bool from_then_on);

// For each row the number of its group, counted from 0 in order of their first rows, and these rows.
// Missing values are equal to each other.
std::pair<Batch, Batch> number(const Keys& rows);

}  // namespace sightline
