// The rows of one piece of a trace, as columns; texts and threads are codes.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "columns/dictionary.h"
#include "columns/numbers.h"

namespace sightline {

// Where nothing is known a column holds 0, so that unused columns need no memory: an integer is
// stored with its top bit flipped, which turns kNull into 0; text codes count from 1.
inline int64_t pack(int64_t value) { return value ^ kNull; }
inline int64_t unpack(int64_t stored) { return stored ^ kNull; }

constexpr size_t kUsualRows = 4096;  // events in a piece of 1 MB, about

// A column of one piece; rows behind its end hold 0.
template <typename T>
class PieceColumn {
public:
    void put(size_t row, T value) {
        if (value == 0) return;
        if (values_.capacity() == 0) values_.reserve(kUsualRows);
        values_.resize(row, 0);
        values_.push_back(value);
    }
    std::vector<T>& values() { return values_; }
    const std::vector<T>& values() const { return values_; }

private:
    std::vector<T> values_;
};

// Layers in the order in which the outer of two equal ranges is found.
enum Layer : uint8_t { step, annotation, python, op, other, overhead, runtime, driver };
constexpr uint8_t kLayerBits = 0x0f;
constexpr uint8_t kBackward = 0x40;  // the op names the thread of its forward op
constexpr uint8_t kOpen = 0x80;      // a begin event whose end has not come

// Columns of each table, as indices; the order is that of the output.
namespace host {
enum Wide { start, end, correlation, sequence, python_id, python_parent, wide_count };
enum Code { thread, name, shapes, types, strides, values, stack, module, code_count };
}  // namespace host
namespace device {
enum Wide {
    device_id, context, stream, start, end, correlation, grid_x, grid_y, grid_z, block_x, block_y,
    block_z, registers, shared, bytes, graph, graph_node, wide_count
};
enum Code { thread, name, copy, code_count };
enum Op : uint8_t { none, kernel, memcpy, memset, other };
}  // namespace device
namespace range {
enum Wide { device_id, stream, start, end, wide_count };
enum Code { name, code_count };
}  // namespace range
namespace sync {
enum Wide {
    device_id, stream, event, wait_on_stream, correlation, recorded_by, start, end, wide_count
};
enum Code { kind, code_count };
}  // namespace sync
namespace memory {
enum Wide { time, device_id, address, bytes, allocated, reserved, pid, tid, wide_count };
enum Code { action, code_count };
}  // namespace memory
namespace counter {
enum Wide { device_id, time, value, wide_count };  // the value's bits are those of a float64
enum Code { metric, code_count };
}  // namespace counter
namespace flow {
enum Wide { id, time, wide_count };
enum Code { thread, code_count };
enum Bits : uint8_t { launch = 1, forward_backward = 2, is_start = 4 };
}  // namespace flow
namespace collective {
enum Wide { row, group_size, sequence, elements_in, elements_out, peer, wide_count };
enum Code { name, group, description, ranks, dtype, code_count };
enum Owner : uint8_t { none, by_device, by_host };
}  // namespace collective

// Rows of one table: wide columns are int64, code columns number texts or threads, one byte tags.
struct PieceTable {
    PieceTable(size_t wide_columns, size_t code_columns)
        : wide(wide_columns), codes(code_columns) {}

    size_t rows = 0;
    std::vector<PieceColumn<int64_t>> wide;
    std::vector<PieceColumn<uint32_t>> codes;
    PieceColumn<uint8_t> tag;

    void put(size_t column, int64_t value) { wide[column].put(rows, pack(value)); }
    void code(size_t column, uint32_t value) { codes[column].put(rows, value); }
};

enum TableId : uint8_t {
    kHost, kDevice, kRanges, kSyncs, kMemory, kCounters, kFlows, kCollectives, kTables
};
constexpr size_t kWide[kTables] = {host::wide_count,   device::wide_count,  range::wide_count,
                                   sync::wide_count,   memory::wide_count,  counter::wide_count,
                                   flow::wide_count,   collective::wide_count};
constexpr size_t kCodes[kTables] = {host::code_count,   device::code_count,  range::code_count,
                                    sync::code_count,   memory::code_count,  counter::code_count,
                                    flow::code_count,   collective::code_count};

// Numbers for (pid, tid), in order of first appearance, from 1.
class Threads {
public:
    uint32_t number(int64_t pid, int64_t tid);
    const std::vector<std::pair<int64_t, int64_t>>& all() const { return all_; }

private:
    struct Hash {
        size_t operator()(const std::pair<int64_t, int64_t>& key) const {
            const auto mixed = static_cast<uint64_t>(key.first) * 0x9E3779B97F4A7C15u;
            return static_cast<size_t>((mixed ^ static_cast<uint64_t>(key.second)) *
                                       0xD6E8FEB86659FD93u);
        }
    };
    std::vector<std::pair<int64_t, int64_t>> all_;
    std::unordered_map<std::pair<int64_t, int64_t>, uint32_t, Hash> known_;
    uint32_t last_ = 0;
};

// A begin or an end event of a plain Chrome trace, to be paired across pieces.
struct Half {
    bool is_begin;
    size_t row;  // of a begin: its row in the host table
    uint32_t name;
    int64_t pid, tid, time;
};

// The name of a process, or of a thread where `of_thread`.
struct Naming {
    bool of_thread;
    int64_t pid, tid;
    uint32_t name;
};

struct ChunkRows {
    ChunkRows();

    std::vector<PieceTable> tables;
    Dictionary texts;
    Threads threads;
    std::vector<Half> halves;
    std::vector<Naming> namings;
    std::vector<std::pair<uint32_t, uint64_t>> unknown;  // category and count, by appearance
    uint64_t events = 0;
    uint64_t not_events = 0;
    uint64_t negative_durations = 0;
    bool has_mtia = false, has_hpu = false;  // some category is of such a device
    bool has_span = false;
    int64_t span_start = 0;
    int64_t span_end = 0;
};

}  // namespace sightline
