// GPUs: what ran on them, and their counters.
#include "perfetto/packet.h"

namespace sightline::perfetto {

namespace {

constexpr size_t kMostSpecifications = 1 << 16;

void read_dimensions(const Field& data, int64_t* out) {
    Fields fields(data.data, data.size);
    Field field;
    for (int i = 0; i < 3; ++i) out[i] = 1;
    while (fields.next(field)) {
        if (field.number >= 1 && field.number <= 3) out[field.number - 1] = small(field.value);
    }
}

}  // namespace

// An argument of a kernel or a launch: its name and its value as JSON.
std::pair<int64_t, std::string> PerfettoTrace::read_argument(Sequence& sequence, const Field& data) {
    int64_t name = kNull;
    std::string value = "null";
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field)) {
        const bool is_bytes = field.wire == Wire::bytes;
        switch (field.number) {
            case 1: name = find(sequence.interned.argument_names, field.value); break;
            case 2: if (is_bytes) name = code(field); break;
            case 3: value = std::to_string(static_cast<int64_t>(field.value)); break;
            case 4: value = std::to_string(field.value); break;
            case 5: value.clear(); write_json(real_of(field.value), value); break;
            case 6:
                if (is_bytes) {
                    value.clear();
                    write_json({reinterpret_cast<const char*>(field.data), field.size}, value);
                }
                break;
            default: break;
        }
    }
    return {name, value};
}

void PerfettoTrace::read_stage(Sequence& sequence, const Packet& packet, const Field& data) {
    Interned& known = sequence.interned;
    const auto row = static_cast<int64_t>(table("stages").rows());
    int64_t event = kNull, duration = 0, gpu = 0, context = kNull, pid = kNull, name = kNull;
    int64_t queue = kNull, queue_number = kNull, stage = kNull, category = kNull, submission = kNull;
    int64_t grid[3] = {kNull, kNull, kNull}, block[3] = {kNull, kNull, kNull};
    int64_t kernel = kNull, mangled = kNull;
    std::string json;
    bool first = true, bad = !packet.has_time;
    const auto add = [&](std::string_view key, const std::string& value) {
        json += first ? '{' : ',';
        first = false;
        write_json(key, json);
        json += ':';
        json += value;
    };
    const auto add_argument = [&](const std::pair<int64_t, std::string>& argument) {
        if (argument.first > 0) add(texts_.text(static_cast<uint32_t>(argument.first)), argument.second);
    };
    const auto specification = [&](uint64_t number) {
        const auto found = known.specifications.find(number);
        if (found == known.specifications.end()) ++counts_.unknown_names;
        return found == known.specifications.end() ? Specification() : found->second;
    };
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field)) {
        const bool is_bytes = field.wire == Wire::bytes;
        switch (field.number) {
            case 1: event = static_cast<int64_t>(field.value); break;
            case 2:
                duration = static_cast<int64_t>(field.value);
                bad = bad || field.value > static_cast<uint64_t>(kMaxInt / 4);
                break;
            case 11: gpu = small(field.value); break;
            case 5: {
                context = static_cast<int64_t>(field.value);
                const auto found = known.context_pids.find(field.value);
                if (found != known.context_pids.end()) pid = found->second;
                const auto old = old_contexts_.find(field.value);
                if (pid == kNull && old != old_contexts_.end()) pid = old->second;
                break;
            }
            case 13:
                queue = specification(field.value).name;
                queue_number = static_cast<int64_t>(field.value);
                // A stage on a queue that nobody described lies on no track.
                if (known.specifications.count(field.value) == 0) bad = true;
                break;
            case 3:
                if (field.value < old_queues_.size()) queue = old_queues_[field.value].name;
                queue_number = small(field.value);
                break;
            case 14: {
                const Specification found = specification(field.value);
                stage = found.name;
                category = found.category;
                break;
            }
            case 4: if (field.value < old_stages_.size()) stage = old_stages_[field.value].name; break;
            case 10: submission = static_cast<int64_t>(field.value); break;
            case 17: if (is_bytes) name = code(field); break;
            case 20: name = find(known.event_names, field.value); break;
            case 18:
                each_number(field, [&](uint64_t n) {
                    table("stage_waits").append<2>({row, static_cast<int64_t>(n)});
                });
                break;
            case 19: {
                const auto found = known.kernels.find(field.value);
                if (found == known.kernels.end()) break;
                const Kernel& one = found->second;
                kernel = one.demangled > 0 ? one.demangled : one.name;
                mangled = one.demangled > 0 ? one.name : kNull;
                for (const auto& argument : one.args) add_argument(argument);
                break;
            }
            case 21:
                if (is_bytes) {
                    Fields inner(field.data, field.size);
                    Field one;
                    while (inner.next(one)) {
                        if (one.wire != Wire::bytes) continue;
                        if (one.number == 1) read_dimensions(one, grid);
                        if (one.number == 2) read_dimensions(one, block);
                        if (one.number == 3) add_argument(read_argument(sequence, one));
                    }
                }
                break;
            case 6:
                if (is_bytes) {
                    Fields inner(field.data, field.size);
                    Field one, key, text;
                    while (inner.next(one)) {
                        if (one.number == 1 && one.wire == Wire::bytes) key = one;
                        if (one.number == 2 && one.wire == Wire::bytes) text = one;
                    }
                    std::string value;
                    write_json({reinterpret_cast<const char*>(text.data), text.size}, value);
                    add({reinterpret_cast<const char*>(key.data), key.size}, value);
                }
                break;
            case 7: if (is_bytes) read_specifications(sequence, field); break;
            default: break;
        }
    }
    if (!first) json += '}';
    if (event == kNull && duration == 0 && queue_number == kNull) return;  // descriptions only
    if (bad) {
        ++counts_.bad_times;
        // Its row must stay, since waits point to rows; a negative duration says that it is none.
        duration = -1;
    }
    table("stages").append<22>(
        {packet.time, static_cast<int64_t>(packet.clock), duration, event, gpu, pid, context, queue,
         queue_number, stage, category, name, kernel, mangled, grid[0], grid[1], grid[2], block[0],
         block[1], block[2], submission, first ? kNull : code(json)});
}

void PerfettoTrace::read_specifications(Sequence&, const Field& data) {
    Fields fields(data.data, data.size);
    Field field;
    old_queues_.clear();
    old_stages_.clear();
    while (fields.next(field)) {
        if (field.wire != Wire::bytes) continue;
        Fields inner(field.data, field.size);
        Field one;
        int64_t name = kNull, pid = kNull;
        uint64_t context = 0;
        while (inner.next(one)) {
            if (one.number == 1 && one.wire == Wire::bytes) name = code(one);
            if (one.number == 1 && one.wire == Wire::varint) context = one.value;
            if (one.number == 2 && one.wire == Wire::varint) pid = small(one.value);
        }
        if (field.number == 1) old_contexts_[context] = pid;
        if (field.number == 2 && old_queues_.size() < kMostSpecifications) old_queues_.push_back({name, kNull});
        if (field.number == 3 && old_stages_.size() < kMostSpecifications) old_stages_.push_back({name, kNull});
    }
}

void PerfettoTrace::read_gpu_counter(Sequence& sequence, const Packet& packet, const Field& data) {
    int64_t gpu = 0;
    std::vector<Field> counters;
    const std::unordered_map<uint64_t, int64_t>* names = nullptr;
    Field description;
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field)) {
        const bool is_bytes = field.wire == Wire::bytes;
        if (field.number == 3) gpu = small(field.value);
        if (field.number == 1 && is_bytes) description = field;
        if (field.number == 2 && is_bytes) counters.push_back(field);
        if (field.number == 4) {
            const auto found = sequence.interned.counter_names.find(field.value);
            if (found != sequence.interned.counter_names.end()) names = &found->second;
        }
    }
    auto& own = counter_names_[static_cast<uint64_t>(gpu)];
    if (description.data != nullptr) {
        read_counter_names(description, [&](uint64_t n, const Field& name) { own[n] = code(name); });
    }
    if (names == nullptr) names = &own;
    for (const Field& counter : counters) {
        Fields inner(counter.data, counter.size);
        Field one;
        uint64_t id = 0;
        int64_t value = kNull;
        while (inner.next(one)) {
            if (one.number == 1) id = one.value;
            if (one.number == 2) value = bits_of(static_cast<double>(static_cast<int64_t>(one.value)));
            if (one.number == 3) value = bits_of(real_of(one.value));
        }
        const auto found = names->find(id);
        if (found == names->end()) {
            ++counts_.unknown_names;
        } else if (packet.has_time && value != kNull) {
            table("gpu_counters").append<5>({packet.time, static_cast<int64_t>(packet.clock), gpu,
                                             found->second, value});
        }
    }
}

void PerfettoTrace::read_gpus(const Field& data) {
    Fields fields(data.data, data.size);
    Field field;
    int64_t number = 0;
    while (fields.next(field)) {
        if (field.number != 1 || field.wire != Wire::bytes) continue;
        int64_t name = kNull, vendor = kNull, architecture = kNull;
        Fields inner(field.data, field.size);
        Field one;
        while (inner.next(one)) {
            if (one.wire != Wire::bytes) continue;
            if (one.number == 1) name = code(one);
            if (one.number == 2) vendor = code(one);
            if (one.number == 4) architecture = code(one);
        }
        table("gpus").append<4>({number++, name, vendor, architecture});
    }
}

}  // namespace sightline::perfetto
