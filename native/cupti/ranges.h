// NVTX ranges and marks, as the program makes them: kept by thread, taken by the writer now and then.
#pragma once

#include "cupti/writer.h"

namespace sightline::cupti {

// Before ranges are said or taken: from here on a fork leaves no lock held in its child.
void prepare_ranges();

// Rows of all threads since the last time. What is made before anybody takes it is kept up to a
// bound; what comes on top is counted. `is_last` adds the ranges that are still open, without an end.
void take_ranges(Writer& writer, bool is_last);
uint64_t count_lost_ranges();
void abandon_ranges();  // in the child of a fork

}  // namespace sightline::cupti
