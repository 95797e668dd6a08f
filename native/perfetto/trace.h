// Reads Perfetto's protobuf traces into columns (protos/perfetto/trace in google/perfetto).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "columns/dictionary.h"
#include "perfetto/rows.h"
#include "perfetto/sequence.h"
#include "protobuf/wire.h"

namespace sightline::perfetto {

// A trace is fed piece by piece, as it is unpacked; a packet that reaches over a piece's end is kept.
// Names are resolved by each sequence's interned data; times stay as written, each with its clock,
// but for clocks of increments, which are added up.
class PerfettoTrace {
public:
    // At most so many unpacked bytes and rows are read: a file of a stranger may unpack to any size.
    PerfettoTrace(uint64_t most_bytes, uint64_t most_rows);
    PerfettoTrace(const PerfettoTrace&) = delete;
    PerfettoTrace& operator=(const PerfettoTrace&) = delete;

    // False where no more is read: too much, or bytes that no trace can hold.
    bool feed(const uint8_t* data, size_t size);

    Batch take(const std::string& table);
    const Dictionary& texts() const { return texts_; }

    struct Counts {
        uint64_t packets = 0, damaged = 0, skipped = 0, lost = 0, bad_times = 0, unknown_names = 0;
    };
    const Counts& counts() const { return counts_; }
    size_t unread() const { return rest_.size(); }
    bool is_broken() const { return broken_; }
    bool is_too_long() const { return too_long_; }

private:
    struct Packet;

    size_t read_packets(const uint8_t* data, size_t size);
    bool read_packet(const uint8_t* data, size_t size, int depth);
    bool unpack(const Field& field, int depth);
    void intern(Sequence& sequence, const Field& data);
    void intern_kernel(Sequence& sequence, const Field& data);
    void read_defaults(Sequence& sequence, const Field& data);
    void read_clocks(Sequence& sequence, uint64_t id, const Field& data);
    void read_event(Sequence& sequence, const Packet& packet, const Field& data);
    void read_track(Sequence& sequence, const Packet& packet, const Field& data);
    void read_old_thread(Sequence& sequence, const Field& data);
    void read_stage(Sequence& sequence, const Packet& packet, const Field& data);
    void read_specifications(Sequence& sequence, const Field& data);
    void read_gpu_counter(Sequence& sequence, const Packet& packet, const Field& data);
    void read_sample(Sequence& sequence, const Packet& packet, const Field& data);
    void read_profile(Sequence& sequence, const Packet& packet, const Field& data);
    void read_ftrace(const Field& data);
    void read_switches(const Field& data, int64_t cpu, int64_t clock);
    void read_processes(const Field& data);
    void read_gpus(const Field& data);
    void read_process_stats(const Packet& packet, const Field& data);
    void read_system_stats(const Packet& packet, const Field& data);
    void read_gpu_memory(const Packet& packet, const Field& data);
    void read_gpu_memory(int64_t time, int64_t clock, const Field& data);
    bool read_memory_event(int64_t time, int64_t tid, const Field& data);
    void add_memory(int64_t time, int64_t clock, int64_t pid, int64_t gpu, const char* name, uint64_t bytes);
    int64_t node_of(Sequence& sequence, uint64_t callstack);
    int64_t node_of(Sequence& sequence, const std::vector<CodeFrame>& frames);
    int64_t inline_stack(Sequence& sequence, const Field& data);
    void add_annotation(Sequence& sequence, const Field& data, std::string& json, bool& first);
    void add_value(Sequence& sequence, const Field& data, std::string& json, int depth);
    std::pair<int64_t, std::string> read_argument(Sequence& sequence, const Field& data);
    int64_t find(const Texts& texts, uint64_t number);
    int64_t code(std::string_view text);
    int64_t code(const Field& field) {
        return code({reinterpret_cast<const char*>(field.data), field.size});
    }
    Rows& table(const char* name) { return tables_.at(name); }

    uint64_t most_bytes_, most_rows_, bytes_ = 0;
    std::vector<uint8_t> rest_;
    bool broken_ = false, too_long_ = false;
    Counts counts_;
    Dictionary texts_;
    std::map<std::string, Rows, std::less<>> tables_;
    std::unordered_map<uint64_t, Sequence> sequences_;
    // Old render stages name queues and stages by place in one list for the whole trace.
    std::vector<Specification> old_queues_, old_stages_;
    std::unordered_map<uint64_t, int64_t> old_contexts_;
    std::unordered_map<uint64_t, std::unordered_map<uint64_t, int64_t>> counter_names_;  // by GPU
    std::map<std::array<int64_t, 4>, int64_t> frames_;
    std::map<std::pair<int64_t, int64_t>, int64_t> stacks_;
    std::unordered_map<int64_t, int64_t> running_;  // compact scheduling: the thread on each core
    std::unordered_map<uint64_t, int64_t> memory_owners_;  // threads by the memory that they had
    int64_t snapshots_ = 0;
    std::string json_;
};

}  // namespace sightline::perfetto
