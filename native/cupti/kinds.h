// Kinds of activity records as tables: which columns are kept, and where a record has them.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cupti/format.h"

namespace sightline::cupti {

// A column of a table, and where CUPTI's struct of the v1 interface has it. Structs grow at their
// end only, so one build reads those of CUPTI 12.x and 13.x. `field` is the number of the field in
// user-defined records (13.3 and newer), -1 where it has none.
struct Column {
  const char* name;
  Type type;
  uint16_t at;
  uint16_t width;
  int field;
  uint16_t inside = 0;  // where in the field, which is longer than any column
};

struct Kind {
  const char* table;
  std::vector<CUpti_ActivityKind> kinds;  // the first one is enabled
  std::vector<Column> columns;
  bool is_call = false;  // API calls: `cbid` needs its name
  // The CUPTI that has the kind; 0: all. What an older one lacks, or a device cannot, is no loss.
  uint32_t since = 0;
};

// All kinds that are kept. The place in the list is the table's number.
const std::vector<Kind>& list_kinds();

// Where one column is in a record, and how wide it is there.
struct Step {
  uint16_t from;
  uint16_t width;
  uint16_t to;
  Type type;
};

// How a record becomes a row.
struct Plan {
  std::vector<Step> steps;
  uint32_t row_bytes = 0;
  int cbid = -1;             // offset of `cbid` in a row, of API calls
  uint32_t record_bytes = 0; // of user-defined records; 0 where CUPTI walks them
};

// The plan for the structs of the v1 interface.
Plan plan_structs(const Kind& kind);

#if CUPTI_API_VERSION >= 130300
// The plan for user-defined records, from the layout that CUPTI returned with a buffer. Columns
// that the layout lacks are 0.
Plan plan_layout(const Kind& kind, const CUpti_ActivityRecordLayout& layout);
#endif

}  // namespace sightline::cupti
