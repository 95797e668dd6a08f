#include "perfetto/trace.h"

#include <zlib.h>

#include <algorithm>

#include "perfetto/packet.h"

namespace sightline::perfetto {

namespace {

constexpr uint32_t kPacket = 1;  // in a trace: its packets
// A packet is at most 64 MB long in traces that Perfetto itself reads (its message limit is 256 MB).
constexpr size_t kLongestPacket = size_t{256} << 20;
constexpr int kMostNested = 2;  // compressed packets hold packets, which hold no compressed ones
constexpr int64_t kTimeLimit = kMaxInt / 4;
constexpr uint64_t kCleared = 1, kNeedsState = 2;
constexpr uint64_t kFirstOwnClock = 64, kFirstGlobalClock = 128;

std::map<std::string, Rows, std::less<>> make_tables() {
    std::map<std::string, Rows, std::less<>> tables;
    const auto add = [&](const char* name, std::vector<const char*> columns) {
        tables.emplace(name, Rows(std::move(columns)));
    };
    add("clocks", {"snapshot", "clock", "time", "primary"});
    add("tracks", {"uuid", "parent", "name", "pid", "tid", "process_name", "thread_name",
                   "is_counter", "unit_name", "unit", "multiplier", "is_incremental"});
    add("events", {"time", "clock", "type", "track", "name", "category", "value",
                   "duration_us", "pid", "tid", "async_id", "generation", "stack", "arguments"});
    add("flows", {"event", "flow", "is_end"});
    add("links", {"event", "stage_event", "is_wait"});
    add("stages", {"time", "clock", "duration", "event", "gpu", "pid", "context", "queue",
                   "queue_number", "stage", "category", "name", "kernel", "mangled", "grid_x",
                   "grid_y", "grid_z", "block_x", "block_y", "block_z", "submission", "arguments"});
    add("stage_waits", {"stage", "event"});
    add("gpu_counters", {"time", "clock", "gpu", "name", "value"});
    add("samples", {"time", "clock", "pid", "tid", "cpu", "stack"});
    add("switches", {"time", "clock", "cpu", "prev_tid", "prev_state", "next_tid"});
    add("prints", {"time", "clock", "tid", "text"});
    add("frequencies", {"time", "clock", "gpu", "khz"});
    add("memory", {"time", "clock", "pid", "gpu", "name", "bytes"});
    add("resident", {"time", "clock", "tid", "name", "bytes"});
    add("processes", {"pid", "name"});
    add("threads", {"pid", "tid", "name"});
    add("gpus", {"gpu", "name", "vendor", "architecture"});
    add("frames", {"function", "file", "module", "line"});
    add("stacks", {"parent", "frame"});
    return tables;
}

// The key of a clock in the whole trace: those from 64 to 127 belong to one sequence.
uint64_t key_of(uint64_t clock, uint64_t sequence) {
    const bool own = clock >= kFirstOwnClock && clock < kFirstGlobalClock;
    return own ? clock | sequence << 32 : clock;
}

}  // namespace

PerfettoTrace::PerfettoTrace(uint64_t most_bytes, uint64_t most_rows)
    : most_bytes_(most_bytes), most_rows_(most_rows), tables_(make_tables()) {}

Batch PerfettoTrace::take(const std::string& table) { return tables_.at(table).take(); }

bool PerfettoTrace::feed(const uint8_t* data, size_t size) {
    if (broken_ || too_long_) return false;
    if (rest_.empty()) {
        const size_t used = read_packets(data, size);
        rest_.assign(data + used, data + size);
    } else {
        rest_.insert(rest_.end(), data, data + size);
        const size_t used = read_packets(rest_.data(), rest_.size());
        rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(used));
    }
    return !broken_ && !too_long_;
}

// Reads the whole packets; returns how many bytes they take.
size_t PerfettoTrace::read_packets(const uint8_t* data, size_t size) {
    size_t used = 0;
    while (used < size && !broken_ && !too_long_) {
        Fields fields(data + used, size - used);
        Field field;
        if (!fields.next(field)) {
            // The end of the piece, or of what a trace can hold?
            Fields head(data + used, size - used);
            uint64_t key = 0, length = 0;
            if (!head.varint(key)) {
                broken_ = size - used > 10;
            } else if ((key & 7) == static_cast<uint64_t>(Wire::bytes)) {
                const bool is_whole = head.varint(length);
                broken_ = key >> 3 == 0 || (is_whole && length > kLongestPacket) ||
                          (!is_whole && size - used > 20);
            } else {
                broken_ = key >> 3 == 0 || size - used > 20 || (key & 7) == 3 || (key & 7) == 4 ||
                          (key & 7) > 5;
            }
            break;
        }
        const auto length = static_cast<size_t>(fields.at() - (data + used));
        used += length;
        bytes_ += length;
        if (field.number == kPacket && field.wire == Wire::bytes &&
            !read_packet(field.data, field.size, 0)) {
            ++counts_.damaged;
        }
        too_long_ = too_long_ || bytes_ > most_bytes_;
    }
    uint64_t rows = 0;
    for (const auto& [name, table] : tables_) rows += table.rows();
    too_long_ = too_long_ || rows > most_rows_;
    return used;
}

bool PerfettoTrace::unpack(const Field& field, int depth) {
    if (depth + 1 >= kMostNested) return false;
    z_stream stream{};
    if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
    stream.next_in = const_cast<Bytef*>(field.data);
    stream.avail_in = static_cast<uInt>(field.size);
    std::vector<uint8_t> kept;
    std::vector<uint8_t> piece(size_t{1} << 18);
    int got = Z_OK;
    bool is_whole = true;
    while (got == Z_OK && !too_long_) {
        stream.next_out = piece.data();
        stream.avail_out = static_cast<uInt>(piece.size());
        got = inflate(&stream, Z_NO_FLUSH);
        kept.insert(kept.end(), piece.data(), piece.data() + (piece.size() - stream.avail_out));
        Fields packets(kept.data(), kept.size());
        Field packet;
        const uint8_t* at = kept.data();
        while (packets.next(packet)) {
            at = packets.at();
            if (packet.number == kPacket && packet.wire == Wire::bytes) {
                is_whole = read_packet(packet.data, packet.size, depth + 1) && is_whole;
            }
        }
        bytes_ += static_cast<uint64_t>(at - kept.data());
        kept.erase(kept.begin(), kept.begin() + (at - kept.data()));
        too_long_ = too_long_ || bytes_ > most_bytes_ || kept.size() > kLongestPacket;
        if (stream.avail_in == 0 && stream.avail_out != 0) break;
    }
    inflateEnd(&stream);
    return is_whole && kept.empty() && got != Z_DATA_ERROR && got != Z_NEED_DICT;
}

bool PerfettoTrace::read_packet(const uint8_t* data, size_t size, int depth) {
    ++counts_.packets;
    Packet packet;
    Fields fields(data, size);
    Field field;
    Field interned, defaults, clocks, content;
    uint64_t flags = 0, id = 0, written = 0;
    bool is_lost = false, is_cleared = false, has_clock = false, whole = true;
    while (fields.next(field)) {
        const bool is_bytes = field.wire == Wire::bytes;
        switch (field.number) {
            case 8: written = field.value; packet.has_time = !is_bytes; break;
            case 10: id = field.value & UINT32_MAX; break;
            case 13: flags = field.value; break;
            case 41: is_cleared = field.value != 0; break;
            case 42: is_lost = field.value != 0; break;
            case 58: packet.clock = field.value & UINT32_MAX; has_clock = true; break;
            case 12: if (is_bytes) interned = field; break;
            case 59: if (is_bytes) defaults = field; break;
            case 6: if (is_bytes) clocks = field; break;
            case 50: if (is_bytes) whole = unpack(field, depth); break;
            case 1: case 2: case 7: case 9: case 11: case 43: case 44: case 52: case 53: case 54:
            case 60: case 66: case 71: case 128:
                if (is_bytes) content = field;
                break;
            default: break;
        }
    }
    if (!fields.is_whole() || !whole) return false;
    const auto [place, is_first] = sequences_.try_emplace(id);
    Sequence& sequence = place->second;
    packet.sequence = id;
    if (is_cleared || (flags & kCleared) != 0) {
        sequence.interned = Interned();
        sequence.defaults = Defaults();
        sequence.valid = true;
        ++sequence.generation;
    } else if (is_lost && !is_first) {  // before its first packet, nothing of it was lost
        sequence.valid = false;
        ++counts_.lost;
    }
    if (interned.size != 0) intern(sequence, interned);
    if (defaults.data != nullptr) read_defaults(sequence, defaults);
    if (clocks.size != 0) read_clocks(sequence, id, clocks);
    if (content.data == nullptr) return true;
    if ((flags & kNeedsState) != 0 && !sequence.valid) {
        ++counts_.skipped;
        return true;
    }
    if (!has_clock && sequence.defaults.clock) packet.clock = *sequence.defaults.clock;
    if (packet.has_time) {
        const auto found = sequence.clocks.find(packet.clock);
        if (found != sequence.clocks.end()) {
            Clock& clock = found->second;
            written *= clock.multiplier;
            if (clock.incremental) written = clock.last += written;
        }
        if (written > static_cast<uint64_t>(kTimeLimit)) {
            ++counts_.bad_times;
            return true;
        }
        packet.time = static_cast<int64_t>(written);
    }
    packet.clock = key_of(packet.clock, id);
    switch (content.number) {
        case 1: read_ftrace(content); break;
        case 2: read_processes(content); break;
        case 7: read_system_stats(packet, content); break;
        case 9: read_process_stats(packet, content); break;
        case 11: read_event(sequence, packet, content); break;
        case 43: case 60: read_track(sequence, packet, content); break;
        case 44: read_old_thread(sequence, content); break;
        case 52: read_gpu_counter(sequence, packet, content); break;
        case 53: read_stage(sequence, packet, content); break;
        case 54: read_profile(sequence, packet, content); break;
        case 66: read_sample(sequence, packet, content); break;
        case 71: read_gpu_memory(packet, content); break;
        case 128: read_gpus(content); break;
        default: break;
    }
    return true;
}

void PerfettoTrace::read_clocks(Sequence& sequence, uint64_t id, const Field& data) {
    ++snapshots_;
    int64_t primary = kNull;
    std::vector<std::pair<uint64_t, int64_t>> found;
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field)) {
        if (field.number == 2) primary = static_cast<int64_t>(field.value);
        if (field.number != 1 || field.wire != Wire::bytes) continue;
        uint64_t number = 0, time = 0;
        Clock clock;
        Fields inner(field.data, field.size);
        Field one;
        while (inner.next(one)) {
            if (one.number == 1) number = one.value & UINT32_MAX;
            if (one.number == 2) time = one.value;
            if (one.number == 3) clock.incremental = one.value != 0;
            if (one.number == 4 && one.value != 0) clock.multiplier = one.value;
        }
        time *= clock.multiplier;
        if (time > static_cast<uint64_t>(kTimeLimit)) continue;
        clock.last = time;
        if (clock.incremental || clock.multiplier != 1) sequence.clocks[number] = clock;
        found.emplace_back(key_of(number, id), static_cast<int64_t>(time));
    }
    for (const auto& [clock, time] : found) {
        table("clocks").append<4>({snapshots_, static_cast<int64_t>(clock), time, primary});
    }
}

void PerfettoTrace::read_defaults(Sequence& sequence, const Field& data) {
    Fields fields(data.data, data.size);
    Field field;
    sequence.defaults = Defaults();
    while (fields.next(field)) {
        if (field.number == 58) sequence.defaults.clock = field.value & UINT32_MAX;
        if (field.number != 11 || field.wire != Wire::bytes) continue;
        Fields inner(field.data, field.size);
        Field one;
        while (inner.next(one)) {
            if (one.number == 11) sequence.defaults.track = one.value;
            if (one.number == 31) each_number(one, [&](uint64_t n) { sequence.defaults.counter_tracks.push_back(n); });
            if (one.number == 45) each_number(one, [&](uint64_t n) { sequence.defaults.real_counter_tracks.push_back(n); });
        }
    }
}

// Interned texts of one kind: `iid` and the text.
void PerfettoTrace::intern(Sequence& sequence, const Field& data) {
    Interned& known = sequence.interned;
    Fields fields(data.data, data.size);
    Field field;
    std::vector<Field> kernels;  // their arguments' names may stand behind them
    while (fields.next(field)) {
        if (field.wire != Wire::bytes) continue;
        if (field.number == 1000) {
            kernels.push_back(field);
            continue;
        }
        Fields inner(field.data, field.size);
        Field one;
        uint64_t iid = 0;
        int64_t text = kNull;
        std::vector<Field> others;
        while (inner.next(one)) {
            if (one.number == 1 && one.wire == Wire::varint) iid = one.value;
            if (one.number == 2 && one.wire == Wire::bytes) text = code(one);
            if (one.number != 1) others.push_back(one);
        }
        switch (field.number) {
            case 1: known.categories[iid] = text; break;
            case 2: known.event_names[iid] = text; break;
            case 3: known.annotation_names[iid] = text; break;
            case 29: known.annotation_values[iid] = text; break;
            case 5: known.functions[iid] = text; break;
            case 17: known.paths[iid] = text; break;
            case 18: known.sources[iid] = text; break;
            case 1001: known.argument_names[iid] = text; break;
            case 6: {
                CodeFrame frame;
                for (const Field& o : others) {
                    if (o.number == 2) frame.function = o.value;
                    if (o.number == 3) frame.mapping = o.value;
                    if (o.number == 5) frame.source = o.value;
                    if (o.number == 6) frame.line = o.value;
                }
                known.frames[iid] = frame;
                break;
            }
            case 7: {
                std::vector<uint64_t> frames;
                for (const Field& o : others) {
                    if (o.number == 2) each_number(o, [&](uint64_t n) { frames.push_back(n); });
                }
                known.callstacks[iid] = std::move(frames);
                known.stacks.erase(iid);
                break;
            }
            case 19:
                for (const Field& o : others) {
                    if (o.number == 7) each_number(o, [&](uint64_t n) { known.mappings[iid] = n; });
                }
                break;
            case 23:
                for (const Field& o : others) {
                    if (o.number == 2) known.context_pids[iid] = static_cast<int64_t>(o.value & UINT32_MAX);
                }
                break;
            case 24: {
                Specification specification{text, kNull};
                for (const Field& o : others) {
                    if (o.number == 4) specification.category = static_cast<int64_t>(o.value);
                }
                known.specifications[iid] = specification;
                break;
            }
            case 47:
                for (const Field& o : others) {
                    if (o.number == 2 && o.wire == Wire::bytes) {
                        read_counter_names(o, [&](uint64_t n, const Field& name) {
                            known.counter_names[iid][n] = code(name);
                        });
                    }
                }
                break;
            default: break;
        }
    }
    for (const Field& one : kernels) intern_kernel(sequence, one);
}

void PerfettoTrace::intern_kernel(Sequence& sequence, const Field& data) {
    Kernel kernel;
    uint64_t iid = 0;
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field)) {
        if (field.number == 1) iid = field.value;
        if (field.wire != Wire::bytes) continue;
        if (field.number == 2) kernel.name = code(field);
        if (field.number == 3) kernel.demangled = code(field);
        if (field.number == 4) {
            std::string arch;
            write_json({reinterpret_cast<const char*>(field.data), field.size}, arch);
            kernel.args.emplace_back(code("arch"), arch);
        }
        if (field.number == 5) kernel.args.push_back(read_argument(sequence, field));
    }
    sequence.interned.kernels[iid] = std::move(kernel);
}

int64_t PerfettoTrace::code(std::string_view text) { return texts_.intern(text); }

int64_t PerfettoTrace::find(const Texts& texts, uint64_t number) {
    const auto found = texts.find(number);
    if (found != texts.end()) return found->second;
    ++counts_.unknown_names;
    return kNull;
}

}  // namespace sightline::perfetto
