// What is wanted of an event: which fields of its message are columns of which table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sightline {

// Numbers of fields from the event's payload down to the value.
using FieldPath = std::vector<uint32_t>;

struct ColumnPlan {
    std::string name;
    std::vector<FieldPath> paths;  // more than one where versions differ
    std::string kind;     // "number", "real" (float or double), "text", "bytes", "chain"
    int64_t missing = 0;  // for an event without the field; kNull for null
};

// Repeated messages in an event become rows of another table, with the chain's number, from 1 on, in
// `id` and their place in it in `stackDepth`. An event's own column of kind "chain" has that number,
// or its `missing` where there is no such message.
struct ChainPlan {
    std::string table;
    FieldPath path;
    std::vector<ColumnPlan> columns;
};

// The first plan that an event meets takes it. Without a name its events are left out.
struct TablePlan {
    std::string name;
    uint32_t payload = 0;         // the event's field with the payload
    FieldPath when;               // this field must be there; empty: any event
    std::vector<int64_t> values;  // and have one of these values; empty: any
    std::vector<ColumnPlan> columns;
    std::vector<ChainPlan> chain;  // none or one
};

}  // namespace sightline
