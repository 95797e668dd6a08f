// Track events and the tracks that they lie on.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "perfetto/packet.h"

namespace sightline::perfetto {

namespace {

constexpr int kMostDepth = 16;  // of values in values
// TrackEvent.Type, and complete slices, which only old events have.
constexpr int64_t kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4, kComplete = 5;
constexpr int64_t kMonotonic = 3;  // the clock of old events' microseconds

}  // namespace

void write_json(std::string_view text, std::string& json) {
    json += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            json += '\\';
            json += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            json += escaped;
        } else {
            json += c;
        }
    }
    json += '"';
}

void write_json(double value, std::string& json) {
    if (!std::isfinite(value)) {
        json += "null";
        return;
    }
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.17g", value);
    json += digits;
}

// One annotation: its name and its value, as a member of a JSON object.
void PerfettoTrace::add_annotation(Sequence& sequence, const Field& data, std::string& json,
                                   bool& first) {
    Fields fields(data.data, data.size);
    Field field;
    std::string_view name;
    while (fields.next(field)) {
        if (field.number == 10 && field.wire == Wire::bytes) {
            name = {reinterpret_cast<const char*>(field.data), field.size};
        }
        if (field.number == 1 && field.wire == Wire::varint) {
            const int64_t found = find(sequence.interned.annotation_names, field.value);
            if (found > 0) name = texts_.text(static_cast<uint32_t>(found));
        }
    }
    if (!first) json += ',';
    first = false;
    write_json(name, json);
    json += ':';
    add_value(sequence, data, json, 0);
}

void PerfettoTrace::add_value(Sequence& sequence, const Field& data, std::string& json, int depth) {
    Fields fields(data.data, data.size);
    Field field;
    const size_t before = json.size();
    bool is_object = false, is_list = false;
    while (fields.next(field)) {
        const bool is_bytes = field.wire == Wire::bytes;
        const std::string_view text = {reinterpret_cast<const char*>(field.data), field.size};
        const bool is_first = json.size() == before;
        switch (field.number) {
            case 2: if (is_first) json += field.value != 0 ? "true" : "false"; break;
            case 3: case 7: if (is_first) json += std::to_string(field.value); break;
            case 4: if (is_first) json += std::to_string(static_cast<int64_t>(field.value)); break;
            case 5: if (is_first) write_json(real_of(field.value), json); break;
            case 6: case 9: if (is_first && is_bytes) write_json(text, json); break;
            case 17:
                if (is_first && !is_bytes) {
                    const int64_t found = find(sequence.interned.annotation_values, field.value);
                    write_json(found > 0 ? texts_.text(static_cast<uint32_t>(found)) : "", json);
                }
                break;
            case 11: case 12: {
                const bool wanted = field.number == 11;
                if (!is_bytes || depth >= kMostDepth || (!is_first && !is_object && !is_list)) break;
                if ((wanted && is_list) || (!wanted && is_object)) break;
                if (is_first) json += wanted ? '{' : '[';
                bool first = is_first;
                (wanted ? is_object : is_list) = true;
                if (wanted) {
                    add_annotation(sequence, field, json, first);
                } else {
                    if (!first) json += ',';
                    add_value(sequence, field, json, depth + 1);
                }
                break;
            }
            default: break;
        }
    }
    if (is_object) json += '}';
    if (is_list) json += ']';
    if (json.size() == before) json += "null";
}

void PerfettoTrace::read_event(Sequence& sequence, const Packet& packet, const Field& data) {
    int64_t type = kNull, name = kNull, category = kNull, stack = kNull;
    int64_t value = kNull, duration = kNull, pid = kNull, tid = kNull, async = kNull;
    int64_t time = packet.time, clock = static_cast<int64_t>(packet.clock);
    std::optional<uint64_t> track = sequence.defaults.track;
    std::vector<uint64_t> counter_tracks = sequence.defaults.counter_tracks;
    std::vector<uint64_t> real_tracks = sequence.defaults.real_counter_tracks;
    bool own_tracks = false, own_real_tracks = false, has_time = packet.has_time;
    std::vector<uint64_t> counts, reals;
    const auto event = static_cast<int64_t>(table("events").rows());
    Field legacy, inline_frames;
    bool first = true;
    json_.clear();
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field)) {
        const bool is_bytes = field.wire == Wire::bytes;
        switch (field.number) {
            case 9: type = small(field.value); break;
            case 10: name = find(sequence.interned.event_names, field.value); break;
            case 23: if (is_bytes) name = code(field); break;
            case 3:
                each_number(field, [&](uint64_t n) {
                    if (category == kNull) category = find(sequence.interned.categories, n);
                });
                break;
            case 22: if (is_bytes && category == kNull) category = code(field); break;
            case 11: track = field.value; break;
            case 30: value = bits_of(static_cast<double>(static_cast<int64_t>(field.value))); break;
            case 44: value = bits_of(real_of(field.value)); break;
            case 47: case 48:
                each_fixed(field, [&](uint64_t n) {
                    table("flows").append<3>({event, static_cast<int64_t>(n), field.number == 48});
                });
                break;
            case 36: case 42:
                each_number(field, [&](uint64_t n) {
                    table("flows").append<3>({event, static_cast<int64_t>(n), field.number == 42});
                });
                break;
            case 56: stack = node_of(sequence, field.value); break;
            case 55: if (is_bytes) inline_frames = field; break;
            case 4:
                if (is_bytes) {
                    json_ += first ? "{" : "";
                    add_annotation(sequence, field, json_, first);
                }
                break;
            case 31:
                if (!own_tracks) counter_tracks.clear();
                own_tracks = true;
                each_number(field, [&](uint64_t n) { counter_tracks.push_back(n); });
                break;
            case 45:
                if (!own_real_tracks) real_tracks.clear();
                own_real_tracks = true;
                each_number(field, [&](uint64_t n) { real_tracks.push_back(n); });
                break;
            case 12: each_number(field, [&](uint64_t n) { counts.push_back(n); }); break;
            case 46: each_fixed(field, [&](uint64_t n) { reals.push_back(n); }); break;
            case 1:
                sequence.reference_us += static_cast<int64_t>(field.value) % (kMaxInt / 8000);
                time = sequence.reference_us;
                clock = -1;
                break;
            case 16: time = static_cast<int64_t>(field.value); clock = -1; break;
            case 6: if (is_bytes) legacy = field; break;
            case 3000:
                if (is_bytes) {
                    Fields inner(field.data, field.size);
                    Field one;
                    while (inner.next(one)) {
                        if (one.number != 1 && one.number != 2) continue;
                        each_number(one, [&](uint64_t n) {
                            table("links").append<3>(
                                {event, static_cast<int64_t>(n), one.number == 2});
                        });
                    }
                }
                break;
            default: break;
        }
    }
    if (clock == -1) {  // microseconds of old events
        if (time < 0 || time > kMaxInt / 4000) {
            ++counts_.bad_times;
            return;
        }
        time *= 1000;
        clock = kMonotonic;
        has_time = true;
    }
    if (legacy.data != nullptr) {
        Fields inner(legacy.data, legacy.size);
        Field one;
        while (inner.next(one)) {
            switch (one.number) {
                case 1:
                    if (name == kNull) name = find(sequence.interned.event_names, one.value);
                    break;
                case 2:
                    switch (one.value) {
                        case 'B': case 'b': case 'S': type = kBegin; break;
                        case 'E': case 'e': case 'F': type = kEnd; break;
                        case 'X': type = kComplete; break;
                        case 'I': case 'i': case 'R': case 'n': case 'T': case 'p': type = kInstant; break;
                        default: type = -small(one.value); break;
                    }
                    break;
                case 3: duration = static_cast<int64_t>(one.value); break;
                case 6: case 10: case 11: async = static_cast<int64_t>(one.value & kMaxInt); break;
                case 18: pid = small(one.value); break;
                case 19: tid = small(one.value); break;
                default: break;
            }
        }
    }
    if (!has_time) {
        ++counts_.bad_times;
        return;
    }
    if (!track || *track == 0) {
        if (pid == kNull) pid = sequence.pid;
        if (tid == kNull) tid = sequence.tid;
    }
    if (inline_frames.data != nullptr) stack = inline_stack(sequence, inline_frames);
    if (!first) json_ += '}';
    const int64_t arguments = first ? kNull : code(json_);
    const int64_t place = track && *track != 0 ? static_cast<int64_t>(*track) : kNull;
    Rows& events = table("events");
    const int64_t state = sequence.generation << 32 | static_cast<int64_t>(packet.sequence);
    events.append<14>({time, clock, type, place, name, category, value, duration, pid, tid, async,
                       state, stack, arguments});
    const auto count = [&](uint64_t where, double number) {
        events.append<14>({time, clock, kCounter, static_cast<int64_t>(where), kNull, kNull,
                           bits_of(number), kNull, kNull, kNull, kNull, state, kNull, kNull});
    };
    for (size_t i = 0; i < std::min(counts.size(), counter_tracks.size()); ++i) {
        count(counter_tracks[i], static_cast<double>(static_cast<int64_t>(counts[i])));
    }
    for (size_t i = 0; i < std::min(reals.size(), real_tracks.size()); ++i) {
        count(real_tracks[i], real_of(reals[i]));
    }
}

// A track's description, or the old description of a sequence's process.
void PerfettoTrace::read_track(Sequence& sequence, const Packet&, const Field& data) {
    int64_t uuid = kNull, parent = kNull, name = kNull, pid = kNull, tid = kNull;
    int64_t process = kNull, thread = kNull, is_counter = 0, unit_name = kNull, unit = kNull;
    int64_t multiplier = kNull, incremental = kNull;
    const auto read_process = [&](const Field& from) {
        Fields inner(from.data, from.size);
        Field one;
        while (inner.next(one)) {
            if (one.number == 1) pid = small(one.value);
            if (one.number == 6 && one.wire == Wire::bytes) process = code(one);
            if (one.number == 2 && one.wire == Wire::bytes && process == kNull) process = code(one);
        }
    };
    if (data.number == 43) {
        read_process(data);
        if (pid != kNull) table("processes").append<2>({pid, process});
        if (sequence.pid == kNull) sequence.pid = pid;
        return;
    }
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field)) {
        const bool is_bytes = field.wire == Wire::bytes;
        if (field.number == 1) uuid = static_cast<int64_t>(field.value);
        if (field.number == 5 && field.value != 0) parent = static_cast<int64_t>(field.value);
        if (!is_bytes) continue;
        if (field.number == 2 || field.number == 10 || field.number == 13) name = code(field);
        if (field.number == 3) read_process(field);
        if (field.number == 4) {
            Fields inner(field.data, field.size);
            Field one;
            while (inner.next(one)) {
                if (one.number == 1) pid = small(one.value);
                if (one.number == 2) tid = static_cast<int64_t>(one.value);
                if (one.number == 5 && one.wire == Wire::bytes) thread = code(one);
            }
            if (tid != kNull && sequence.tid == kNull) {
                sequence.pid = pid;
                sequence.tid = tid;
            }
        }
        if (field.number == 8) {
            is_counter = 1;
            Fields inner(field.data, field.size);
            Field one;
            while (inner.next(one)) {
                if (one.number == 3) unit = static_cast<int64_t>(one.value);
                if (one.number == 4) multiplier = static_cast<int64_t>(one.value);
                if (one.number == 5) incremental = one.value != 0;
                if (one.number == 6 && one.wire == Wire::bytes) unit_name = code(one);
            }
        }
    }
    if (uuid == kNull) return;
    table("tracks").append<12>({uuid, parent, name, pid, tid, process, thread, is_counter, unit_name,
                                unit, multiplier, incremental});
}

void PerfettoTrace::read_old_thread(Sequence& sequence, const Field& data) {
    Fields fields(data.data, data.size);
    Field field;
    int64_t name = kNull;
    while (fields.next(field)) {
        if (field.number == 1) sequence.pid = small(field.value);
        if (field.number == 2) sequence.tid = static_cast<int64_t>(field.value);
        if (field.number == 5 && field.wire == Wire::bytes) name = code(field);
        if (field.number == 6) sequence.reference_us = static_cast<int64_t>(field.value);
    }
    if (sequence.tid == kNull) return;
    table("threads").append<3>({sequence.pid, sequence.tid, name});
}

}  // namespace sightline::perfetto
