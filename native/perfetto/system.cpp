// What the system recorded: samples of call stacks, scheduling, processes.
#include <algorithm>

#include "perfetto/packet.h"

namespace sightline::perfetto {

namespace {

constexpr int64_t kBoot = 6, kGlobal = 3;  // ClockSnapshot.Clock: BOOTTIME, MONOTONIC
constexpr size_t kMostFrames = 4096;       // of one stack

}  // namespace

// The node of a stack in the trie of all; outermost frame first, as Perfetto lists them.
int64_t PerfettoTrace::node_of(Sequence& sequence, const std::vector<CodeFrame>& frames) {
    int64_t node = kNull;
    Interned& known = sequence.interned;
    for (const CodeFrame& frame : frames) {
        int64_t module = kNull;
        const auto mapping = known.mappings.find(frame.mapping);
        if (mapping != known.mappings.end()) module = find(known.paths, mapping->second);
        const int64_t function = find(known.functions, frame.function);
        const int64_t source = frame.source == 0 ? kNull : find(known.sources, frame.source);
        const int64_t line = frame.line == 0 ? kNull : small(frame.line);
        const auto [at, is_new] = frames_.try_emplace({function, source, module, line},
                                                      static_cast<int64_t>(frames_.size()));
        if (is_new) table("frames").append<4>({function, source, module, line});
        const auto [place, added] =
            stacks_.try_emplace({node, at->second}, static_cast<int64_t>(stacks_.size()));
        if (added) table("stacks").append<2>({node, at->second});
        node = place->second;
    }
    return node;
}

int64_t PerfettoTrace::node_of(Sequence& sequence, uint64_t callstack) {
    Interned& known = sequence.interned;
    const auto seen = known.stacks.find(callstack);
    if (seen != known.stacks.end()) return seen->second;
    const auto found = known.callstacks.find(callstack);
    if (found == known.callstacks.end()) {
        ++counts_.unknown_names;
        return kNull;
    }
    std::vector<CodeFrame> frames;
    for (const uint64_t number : found->second) {
        const auto frame = known.frames.find(number);
        if (frame != known.frames.end() && frames.size() < kMostFrames) frames.push_back(frame->second);
    }
    const int64_t node = node_of(sequence, frames);
    known.stacks[callstack] = node;
    return node;
}

// A stack that an event carries itself: frames with names, outermost first.
int64_t PerfettoTrace::inline_stack(Sequence&, const Field& data) {
    int64_t node = kNull;
    size_t count = 0;
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field) && ++count < kMostFrames) {
        if (field.number != 1 || field.wire != Wire::bytes) continue;
        int64_t function = kNull, source = kNull, line = kNull;
        Fields inner(field.data, field.size);
        Field one;
        while (inner.next(one)) {
            if (one.number == 1 && one.wire == Wire::bytes) function = code(one);
            if (one.number == 2 && one.wire == Wire::bytes) source = code(one);
            if (one.number == 3) line = small(one.value);
        }
        const auto [at, is_new] = frames_.try_emplace({function, source, kNull, line},
                                                      static_cast<int64_t>(frames_.size()));
        if (is_new) table("frames").append<4>({function, source, kNull, line});
        const auto [place, added] =
            stacks_.try_emplace({node, at->second}, static_cast<int64_t>(stacks_.size()));
        if (added) table("stacks").append<2>({node, at->second});
        node = place->second;
    }
    return node;
}

void PerfettoTrace::read_sample(Sequence& sequence, const Packet& packet, const Field& data) {
    int64_t pid = kNull, tid = kNull, cpu = kNull, stack = kNull;
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field)) {
        if (field.number == 1) cpu = small(field.value);
        if (field.number == 2) pid = small(field.value);
        if (field.number == 3) tid = small(field.value);
        if (field.number == 4) stack = node_of(sequence, field.value);
    }
    if (!packet.has_time || tid == kNull) return;  // a note of loss, no sample
    table("samples").append<6>({packet.time, static_cast<int64_t>(packet.clock), pid, tid, cpu, stack});
}

// Samples of one thread, as Chrome streams them: times are steps of microseconds.
void PerfettoTrace::read_profile(Sequence& sequence, const Packet& packet, const Field& data) {
    std::vector<uint64_t> stacks;
    std::vector<int64_t> steps;
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field)) {
        if (field.number == 1) each_number(field, [&](uint64_t n) { stacks.push_back(n); });
        if (field.number == 2) each_number(field, [&](uint64_t n) { steps.push_back(static_cast<int64_t>(n)); });
    }
    int64_t us = packet.has_time ? packet.time / 1000 : sequence.reference_us;
    const auto clock = packet.has_time ? static_cast<int64_t>(packet.clock) : kGlobal;
    for (size_t i = 0; i < stacks.size(); ++i) {
        if (i < steps.size()) us += steps[i] % (int64_t{1} << 40);
        if (us < 0 || us > kMaxInt / 4000) {
            ++counts_.bad_times;
            break;
        }
        table("samples").append<6>({us * 1000, clock, sequence.pid, sequence.tid, kNull,
                                    node_of(sequence, stacks[i])});
    }
    if (!packet.has_time) sequence.reference_us = us;
}

void PerfettoTrace::read_ftrace(const Field& data) {
    int64_t cpu = kNull, clock = kBoot;
    Fields head(data.data, data.size);
    Field field;
    while (head.next(field)) {
        if (field.number == 1) cpu = small(field.value);
        // Global and local clocks of the kernel's are close to no other; Perfetto takes them so, too.
        if (field.number == 5 && field.value == 4) clock = 5;  // MONOTONIC_RAW
    }
    Fields fields(data.data, data.size);
    while (fields.next(field)) {
        if (field.wire != Wire::bytes) continue;
        if (field.number == 4) read_switches(field, cpu, clock);
        if (field.number != 2) continue;
        uint64_t time = 0;
        int64_t tid = kNull;
        Field content;
        Fields inner(field.data, field.size);
        Field one;
        while (inner.next(one)) {
            if (one.number == 1) time = one.value;
            if (one.number == 2) tid = small(one.value);
            if (one.number > 2 && one.wire == Wire::bytes) content = one;
        }
        if (content.wire != Wire::bytes || content.data == nullptr) continue;
        if (time > static_cast<uint64_t>(kMaxInt / 4)) {
            ++counts_.bad_times;
            continue;
        }
        const auto at = static_cast<int64_t>(time);
        if (read_memory_event(at, tid, content)) continue;
        if (content.number != 3 && content.number != 4 && content.number != 332) continue;
        Fields values(content.data, content.size);
        int64_t prev = kNull, state = kNull, next = kNull, gpu = kNull, khz = kNull, text = kNull;
        while (values.next(one)) {
            if (one.number == 2 && one.wire == Wire::varint) prev = small(one.value), khz = small(one.value);
            if (one.number == 2 && one.wire == Wire::bytes) text = code(one);
            if (one.number == 4) state = static_cast<int64_t>(one.value);
            if (one.number == 6) next = small(one.value);
            if (one.number == 1 && one.wire == Wire::varint) gpu = small(one.value);
        }
        if (content.number == 4) table("switches").append<6>({at, clock, cpu, prev, state, next});
        if (content.number == 3) table("prints").append<4>({at, clock, tid, text});
        if (content.number == 332) table("frequencies").append<4>({at, clock, gpu == kNull ? 0 : gpu, khz});
    }
}

// Switches written as columns, of which each names only the thread that comes.
void PerfettoTrace::read_switches(const Field& data, int64_t cpu, int64_t clock) {
    std::vector<uint64_t> steps, states, next;
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field)) {
        if (field.number == 1) each_number(field, [&](uint64_t n) { steps.push_back(n); });
        if (field.number == 2) each_number(field, [&](uint64_t n) { states.push_back(n); });
        if (field.number == 3) each_number(field, [&](uint64_t n) { next.push_back(n); });
    }
    uint64_t time = 0;
    const size_t count = std::min({steps.size(), states.size(), next.size()});
    for (size_t i = 0; i < count; ++i) {
        time += steps[i];
        if (time > static_cast<uint64_t>(kMaxInt / 4)) {
            ++counts_.bad_times;
            break;
        }
        const auto before = running_.find(cpu);
        const int64_t prev = before == running_.end() ? kNull : before->second;
        table("switches").append<6>({static_cast<int64_t>(time), clock, cpu, prev,
                                     static_cast<int64_t>(states[i]), small(next[i])});
        running_[cpu] = small(next[i]);
    }
}

void PerfettoTrace::read_processes(const Field& data) {
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field)) {
        if (field.wire != Wire::bytes || field.number > 2) continue;
        int64_t first = kNull, third = kNull, name = kNull;
        Fields inner(field.data, field.size);
        Field one;
        while (inner.next(one)) {
            if (one.number == 1) first = small(one.value);
            const bool is_bytes = one.wire == Wire::bytes;
            if (one.number == 3 && !is_bytes) third = small(one.value);
            if (is_bytes && name == kNull && one.number == (field.number == 1 ? 3 : 2)) name = code(one);
        }
        if (first == kNull) continue;
        if (field.number == 1) table("processes").append<2>({first, name});
        if (field.number == 2) table("threads").append<3>({third, first, name});
    }
}

}  // namespace sightline::perfetto
