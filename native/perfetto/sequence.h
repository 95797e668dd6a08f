// What packets of one sequence leave behind for those that follow.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "columns/numbers.h"

namespace sightline::perfetto {

// Interned texts by their number; codes of the dictionary.
using Texts = std::unordered_map<uint64_t, int64_t>;

struct Kernel {
    int64_t name = kNull, demangled = kNull;
    std::vector<std::pair<int64_t, std::string>> args;  // name and value as JSON
};
struct Specification {
    int64_t name = kNull, category = kNull;
};
struct CodeFrame {
    uint64_t function = 0, mapping = 0, source = 0, line = 0;
};

// Forgotten when the sequence clears its incremental state.
struct Interned {
    Texts event_names, categories, annotation_names, annotation_values, functions, paths, sources,
        argument_names;
    std::unordered_map<uint64_t, Kernel> kernels;
    std::unordered_map<uint64_t, Specification> specifications;
    std::unordered_map<uint64_t, int64_t> context_pids;
    std::unordered_map<uint64_t, uint64_t> mappings;  // the last part of a path
    std::unordered_map<uint64_t, CodeFrame> frames;
    std::unordered_map<uint64_t, std::vector<uint64_t>> callstacks;
    std::unordered_map<uint64_t, int64_t> stacks;  // call stacks that have been used: their nodes
    std::unordered_map<uint64_t, std::unordered_map<uint64_t, int64_t>> counter_names;
};

struct Defaults {
    std::optional<uint64_t> clock, track;
    std::vector<uint64_t> counter_tracks, real_counter_tracks;
};

struct Clock {
    uint64_t multiplier = 1;
    bool incremental = false;
    uint64_t last = 0;
};

struct Sequence {
    bool valid = false;  // the incremental state is whole
    int64_t generation = 0;
    Interned interned;
    Defaults defaults;
    std::unordered_map<uint64_t, Clock> clocks;
    int64_t pid = kNull, tid = kNull;   // of an old thread descriptor
    int64_t reference_us = 0;           // deltas add to it
    int64_t sample_us = 0;              // of streamed profiles
    bool has_sample_time = false;
};

}  // namespace sightline::perfetto
