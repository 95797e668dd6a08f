// What the readers of a packet's contents share.
#pragma once

#include <cstdint>

#include "perfetto/trace.h"

namespace sightline::perfetto {

struct PerfettoTrace::Packet {
    uint64_t sequence = 0;
    uint64_t clock = 0;  // 0: the trace's own
    int64_t time = 0;
    bool has_time = false;
};

// Each number of a repeated field, written packed or one by one.
template <typename Take>
void each_number(const Field& field, Take take) {
    if (field.wire != Wire::bytes) {
        take(field.value);
        return;
    }
    Fields packed(field.data, field.size);
    uint64_t value = 0;
    while (packed.varint(value)) take(value);
}

// The same of numbers of eight bytes.
template <typename Take>
void each_fixed(const Field& field, Take take) {
    if (field.wire != Wire::bytes) {
        take(field.value);
        return;
    }
    for (size_t at = 0; at + 8 <= field.size; at += 8) {
        uint64_t value = 0;
        std::memcpy(&value, field.data + at, 8);
        take(value);
    }
}

// Ids and names of a description of GPU counters.
template <typename Take>
void read_counter_names(const Field& description, Take take) {
    Fields fields(description.data, description.size);
    Field field;
    while (fields.next(field)) {
        if (field.number != 1 || field.wire != Wire::bytes) continue;
        Fields inner(field.data, field.size);
        Field one, name;
        uint64_t id = 0;
        while (inner.next(one)) {
            if (one.number == 1) id = one.value;
            if (one.number == 2 && one.wire == Wire::bytes) name = one;
        }
        if (name.data != nullptr) take(id, name);
    }
}

inline double real_of(uint64_t bits) {
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline int64_t small(uint64_t value) { return static_cast<int32_t>(value); }

void write_json(std::string_view text, std::string& json);
void write_json(double value, std::string& json);

}  // namespace sightline::perfetto
