// Memory over time, as Android and Linux count it: of processes, of the machine, of GPUs, of heaps that
// devices share. Names and units are those that Perfetto's own engine gives these counters.
#include <array>

#include "perfetto/packet.h"

namespace sightline::perfetto {

namespace {

constexpr int64_t kBoot = 6;
constexpr uint64_t kMostKb = static_cast<uint64_t>(kMaxInt) / 1024;

// ProcessStats.Process: fields 2 to 9, in kB.
constexpr std::array kOfProcess = {"mem.virt", "mem.rss", "mem.rss.anon", "mem.rss.file",
                                   "mem.rss.shmem", "mem.swap", "mem.locked", "mem.rss.watermark"};
// rss_stat's members (linux/mm_types_task.h), in bytes.
constexpr std::array kMembers = {"mem.rss.file", "mem.rss.anon", "mem.swap", "mem.rss.shmem"};
// MeminfoCounters from 1 on, as /proc/meminfo and Android's name them, in kB.
constexpr std::array kOfMachine = {
    "MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapCached", "Active", "Inactive",
    "Active(anon)", "Inactive(anon)", "Active(file)", "Inactive(file)", "Unevictable", "Mlocked",
    "SwapTotal", "SwapFree", "Dirty", "Writeback", "AnonPages", "Mapped", "Shmem", "Slab",
    "SReclaimable", "SUnreclaim", "KernelStack", "PageTables", "CommitLimit", "Committed_AS",
    "VmallocTotal", "VmallocUsed", "VmallocChunk", "CmaTotal", "CmaFree", "Gpu", "Zram", "Misc",
    "IonHeap", "IonHeapPool"};

// The numbers of a message by their fields; fields above the last are left out.
template <size_t N>
std::array<uint64_t, N> numbers_of(const Field& data, uint32_t& seen) {
    std::array<uint64_t, N> found{};
    Fields fields(data.data, data.size);
    Field field;
    seen = 0;
    while (fields.next(field)) {
        if (field.number >= N || field.wire != Wire::varint) continue;
        found[field.number] = field.value;
        seen |= 1U << field.number;
    }
    return found;
}

}  // namespace

void PerfettoTrace::add_memory(int64_t time, int64_t clock, int64_t pid, int64_t gpu, const char* name,
                               uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(kMaxInt)) {
        ++counts_.bad_times;
        return;
    }
    table("memory").append<6>({time, clock, pid, gpu, code(name), static_cast<int64_t>(bytes)});
}

void PerfettoTrace::read_process_stats(const Packet& packet, const Field& data) {
    if (!packet.has_time) return;
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field)) {
        if (field.number != 1 || field.wire != Wire::bytes) continue;
        uint32_t seen = 0;
        const auto kb = numbers_of<10>(field, seen);
        for (size_t i = 0; i < kOfProcess.size(); ++i) {
            if ((seen >> (i + 2) & 1) == 0 || kb[i + 2] > kMostKb) continue;
            add_memory(packet.time, static_cast<int64_t>(packet.clock), small(kb[1]), kNull,
                       kOfProcess.at(i), kb[i + 2] * 1024);
        }
    }
}

void PerfettoTrace::read_system_stats(const Packet& packet, const Field& data) {
    if (!packet.has_time) return;
    Fields fields(data.data, data.size);
    Field field;
    while (fields.next(field)) {
        if (field.number != 1 || field.wire != Wire::bytes) continue;
        uint32_t seen = 0;
        const auto pair = numbers_of<3>(field, seen);
        if (pair[1] == 0 || pair[1] > kOfMachine.size() || pair[2] > kMostKb) continue;
        add_memory(packet.time, static_cast<int64_t>(packet.clock), kNull, kNull,
                   kOfMachine.at(pair[1] - 1), pair[2] * 1024);
    }
}

// GPU memory of a process, or of the GPU where the process is 0.
void PerfettoTrace::read_gpu_memory(int64_t time, int64_t clock, const Field& data) {
    uint32_t seen = 0;
    const auto values = numbers_of<4>(data, seen);
    const int64_t pid = values[2] == 0 ? kNull : small(values[2]);
    add_memory(time, clock, pid, small(values[1]), "GPU Memory", values[3]);
}

void PerfettoTrace::read_gpu_memory(const Packet& packet, const Field& data) {
    if (packet.has_time) read_gpu_memory(packet.time, static_cast<int64_t>(packet.clock), data);
}

// An event of the kernel's (its field in FtraceEvent): whether it is one of memory.
bool PerfettoTrace::read_memory_event(int64_t time, int64_t tid, const Field& data) {
    uint32_t seen = 0;
    const auto values = numbers_of<5>(data, seen);
    switch (data.number) {
        case 340: read_gpu_memory(time, kBoot, data); return true;
        case 351: add_memory(time, kBoot, kNull, kNull, "mem.dma_heap", values[3]); return true;
        case 335: add_memory(time, kBoot, kNull, kNull, "mem.ion", values[3]); return true;
        case 313: case 359: break;
        default: return false;
    }
    const bool is_full = data.number == 313;  // rss_stat_throttled has its fields in another order
    const uint64_t member = values[is_full ? 1 : 2], bytes = values[is_full ? 2 : 4];
    const uint64_t is_own = values[is_full ? 3 : 1], memory = values[is_full ? 4 : 3];
    const bool has_owner = (seen >> (is_full ? 4 : 3) & 1) != 0;
    // The memory is that of the running thread, or of whom it was before.
    if (has_owner && is_own != 0) memory_owners_[memory] = tid;
    const auto owner = memory_owners_.find(memory);
    if (has_owner && is_own == 0 && owner == memory_owners_.end()) return true;
    if (member >= kMembers.size()) return true;
    const int64_t of = has_owner && is_own == 0 ? owner->second : tid;
    if (of == kNull || of == 0) return true;
    table("resident").append<5>({time, kBoot, of, code(kMembers.at(member)), static_cast<int64_t>(bytes)});
    return true;
}

}  // namespace sightline::perfetto
