#include "kineto/output.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <unordered_set>

#include "columns/pages.h"
#include "columns/texts.h"

namespace sightline {

namespace {

constexpr std::array<const char*, 8> kLayerNames = {"step",  "annotation", "python",  "op",
                                                    "other", "overhead",   "runtime", "driver"};
constexpr std::array<const char*, 5> kKindNames = {"", "kernel", "memcpy", "memset", "other"};

}  // namespace

// Makes the columns of a batch; `value(i)` gives the value of the i-th row of the table's order.
class Output::Builder {
public:
    Builder(const Output& output, size_t from, size_t count, bool with_empty = false)
        : output_(output), from_(from), count_(count), with_empty_(with_empty) {
        batch.rows = static_cast<int64_t>(count);
    }

    template <typename Value>
    void integers(const char* name, Value value) {
        int64_t* made = nullptr;
        const auto column = start(name, "l", made);
        for (size_t i = 0; i < count_; ++i) {
            const int64_t one = value(from_ + i);
            made[i] = one;
            if (one == kNull) column->set_null(i, count_);
        }
    }

    // A column of the rows as they were read.
    void stored(const char* name, const Column<int64_t>& column, const std::vector<uint32_t>& rows,
                int64_t add = 0) {
        const int64_t* data = column.data();
        if (data == nullptr) {
            if (with_empty_) integers(name, [](size_t) { return kNull; });
            return;
        }
        integers(name, [&](size_t i) {
            const int64_t one = unpack(data[rows[i]]);
            return one == kNull ? kNull : one + add;
        });
    }

    // Numbers of rows in another table, or none.
    void links(const char* name, const std::vector<uint32_t>& to) {
        integers(name, [&](size_t i) {
            return i < to.size() && to[i] != kNoRow ? static_cast<int64_t>(to[i]) : kNull;
        });
    }

    template <typename Code>
    void texts(const char* name, Code code) {
        View* made = nullptr;
        const auto column = start(name, "vu", made);
        column->texts = output_.done_.tables.texts.blocks();
        column->text_sizes = output_.text_sizes_;
        for (size_t i = 0; i < count_; ++i) {
            const uint32_t one = code(from_ + i);
            made[i] = output_.views_[one];
            if (one == 0) column->set_null(i, count_);
        }
    }

    void stored_texts(const char* name, const Column<uint32_t>& column,
                      const std::vector<uint32_t>& rows) {
        const uint32_t* data = column.data();
        if (data == nullptr && !with_empty_) return;
        texts(name, [&](size_t i) { return data == nullptr ? 0 : data[rows[i]]; });
    }

    void floats(const char* name, const Column<int64_t>& bits, const std::vector<uint32_t>& rows) {
        double* made = nullptr;
        start(name, "g", made);
        for (size_t i = 0; i < count_; ++i) {
            const int64_t one = bits.at(rows[from_ + i]);
            std::memcpy(made + i, &one, sizeof one);
        }
    }

    Batch batch;

private:
    // `values` has room for all rows, which is not filled before: each is written once.
    template <typename T>
    std::shared_ptr<BatchColumn> start(const char* name, const char* format, T*& values) {
        const std::shared_ptr<T[]> made = make_array<T>(count_);
        values = made.get();
        auto column = std::make_shared<BatchColumn>();
        column->name = name;
        column->format = format;
        column->values = made;
        column->data = values;
        batch.columns.push_back(column);
        return column;
    }

    const Output& output_;
    const size_t from_;
    const size_t count_;
    const bool with_empty_;  // also columns that no row of the table has a value in
};

Output::Output(Finished& finished, const Copies& copies) : done_(finished) {
    Dictionary& texts = done_.tables.texts;
    for (size_t i = 0; i < layers_.size(); ++i) layers_[i] = texts.intern(kLayerNames[i]);
    for (size_t i = 1; i < kinds_.size(); ++i) kinds_[i] = texts.intern(kKindNames[i]);
    for (const auto& [code, words] : copies) {
        std::array<uint32_t, 3>& codes = copies_[code];
        for (size_t i = 0; i < 3; ++i) codes[i] = words[i].empty() ? 0 : texts.intern(words[i]);
    }
    views_ = views_of(texts);
    text_sizes_ = sizes_of(texts);
}

TableId Output::id_of(const std::string& table) const {
    constexpr std::array<const char*, kTables> names = {"host_ops", "device_ops", "device_ranges",
                                                        "syncs", "memory_events", "counters",
                                                        "flows", "collectives"};
    const auto* found = std::find(names.begin(), names.end(), table);
    if (found == names.end()) throw std::invalid_argument("no such table: " + table);
    return static_cast<TableId>(found - names.begin());
}

size_t Output::rows(const std::string& table) const { return done_.order[id_of(table)].size(); }

Batch Output::take(const std::string& table, size_t from, size_t count) const {
    const TableId id = id_of(table);
    const size_t all = done_.order[id].size();
    from = std::min(from, all);
    // Columns without a value are left out, as in the store.
    const bool with_empty = id == kCollectives || all == 0;
    Builder out(*this, from, std::min(count, all - from), with_empty);
    switch (id) {
        case kHost: host(out); break;
        case kDevice: device(out); break;
        case kCollectives: collectives(out); break;
        default: others(out, id);
    }
    done_.tables.rows[id].forget();
    return std::move(out.batch);
}

void Output::host(Builder& out) const {
    const Rows& t = done_.tables.rows[kHost];
    const std::vector<uint32_t>& rows = done_.order[kHost];
    const auto& threads = done_.tables.threads.all();
    const auto thread = [&](size_t i) -> const std::pair<int64_t, int64_t>& {
        return threads[t.codes[host::thread].at(rows[i]) - 1];
    };
    out.integers("host_op_id", [](size_t i) { return static_cast<int64_t>(i); });
    out.integers("pid", [&](size_t i) { return thread(i).first; });
    out.integers("tid", [&](size_t i) { return thread(i).second; });
    out.texts("layer", [&](size_t i) { return layers_[done_.layer(rows[i])]; });
    out.stored_texts("name", t.codes[host::name], rows);
    out.stored("start_ns", t.wide[host::start], rows, done_.base);
    out.stored("end_ns", t.wide[host::end], rows, done_.base);
    out.links("parent_id", done_.parent);
    out.integers("depth", [&](size_t i) { return static_cast<int64_t>(done_.depth[i]); });
    out.links("subtree_end_id", done_.subtree_end);
    out.stored("correlation_id", t.wide[host::correlation], rows);
    out.stored("sequence_id", t.wide[host::sequence], rows);
    out.links("forward_id", done_.forward);
    out.stored_texts("input_shapes", t.codes[host::shapes], rows);
    out.stored_texts("input_types", t.codes[host::types], rows);
    out.stored_texts("input_strides", t.codes[host::strides], rows);
    out.stored_texts("input_values", t.codes[host::values], rows);
    out.stored_texts("stack", t.codes[host::stack], rows);
    out.stored("python_id", t.wide[host::python_id], rows);
    out.stored("python_parent_id", t.wide[host::python_parent], rows);
    out.stored_texts("module_id", t.codes[host::module], rows);
}

void Output::device(Builder& out) const {
    const Rows& t = done_.tables.rows[kDevice];
    const std::vector<uint32_t>& rows = done_.order[kDevice];
    out.integers("device_op_id", [](size_t i) { return static_cast<int64_t>(i); });
    out.integers("device_id", [&](size_t i) {
        const int64_t id = t.value(device::device_id, rows[i]);
        return id == kNull ? 0 : id;
    });
    out.stored("context_id", t.wide[device::context], rows);
    out.stored("stream_id", t.wide[device::stream], rows);
    out.texts("kind", [&](size_t i) { return kinds_[t.tag.at(rows[i])]; });
    out.stored_texts("name", t.codes[device::name], rows);
    out.stored("start_ns", t.wide[device::start], rows, done_.base);
    out.stored("end_ns", t.wide[device::end], rows, done_.base);
    out.stored("correlation_id", t.wide[device::correlation], rows);
    out.links("launch_id", done_.launch);
    constexpr std::array<std::pair<const char*, device::Wide>, 9> numbers = {{
        {"grid_x", device::grid_x},
        {"grid_y", device::grid_y},
        {"grid_z", device::grid_z},
        {"block_x", device::block_x},
        {"block_y", device::block_y},
        {"block_z", device::block_z},
        {"registers_per_thread", device::registers},
        {"shared_bytes", device::shared},
        {"bytes", device::bytes},
    }};
    for (const auto& [name, column] : numbers) out.stored(name, t.wide[column], rows);
    constexpr std::array<const char*, 3> words = {"copy_kind", "src_kind", "dst_kind"};
    const bool has_copies = t.codes[device::copy].data() != nullptr;
    for (size_t word = 0; word < words.size() && has_copies; ++word) {
        out.texts(words[word], [&](size_t i) -> uint32_t {
            const uint32_t code = t.codes[device::copy].at(rows[i]);
            if (code == 0) return 0;
            const auto found = copies_.find(code);
            return found == copies_.end() ? 0 : found->second[word];
        });
    }
    out.stored("graph_id", t.wide[device::graph], rows);
    out.stored("graph_node_id", t.wide[device::graph_node], rows);
}

void Output::others(Builder& out, TableId id) const {
    const Rows& t = done_.tables.rows[id];
    const std::vector<uint32_t>& rows = done_.order[id];
    const int64_t base = done_.base;
    if (id == kRanges) {
        out.stored("device_id", t.wide[range::device_id], rows);
        out.stored("stream_id", t.wide[range::stream], rows);
        out.stored_texts("name", t.codes[range::name], rows);
        out.stored("start_ns", t.wide[range::start], rows, base);
        out.stored("end_ns", t.wide[range::end], rows, base);
    } else if (id == kSyncs) {
        out.stored_texts("kind", t.codes[sync::kind], rows);
        out.links("host_op_id", done_.sync_call);
        out.stored("device_id", t.wide[sync::device_id], rows);
        out.stored("stream_id", t.wide[sync::stream], rows);
        out.stored("event_id", t.wide[sync::event], rows);
        out.stored("wait_on_stream_id", t.wide[sync::wait_on_stream], rows);
        out.stored("correlation_id", t.wide[sync::correlation], rows);
        out.stored("recorded_by_correlation_id", t.wide[sync::recorded_by], rows);
        out.stored("start_ns", t.wide[sync::start], rows, base);
        out.stored("end_ns", t.wide[sync::end], rows, base);
    } else if (id == kMemory) {
        out.stored("time_ns", t.wide[memory::time], rows, base);
        out.stored("device_id", t.wide[memory::device_id], rows);
        out.stored_texts("action", t.codes[memory::action], rows);
        out.stored("address", t.wide[memory::address], rows);
        out.stored("bytes", t.wide[memory::bytes], rows);
        out.stored("allocated_bytes", t.wide[memory::allocated], rows);
        out.stored("reserved_bytes", t.wide[memory::reserved], rows);
        out.stored("pid", t.wide[memory::pid], rows);
        out.stored("tid", t.wide[memory::tid], rows);
    } else if (id == kCounters) {
        out.stored_texts("metric", t.codes[counter::metric], rows);
        out.stored("device_id", t.wide[counter::device_id], rows);
        out.stored("time_ns", t.wide[counter::time], rows, base);
        out.floats("value", t.wide[counter::value], rows);
    }
}

void Output::collectives(Builder& out) const {
    const Rows& t = done_.tables.rows[kCollectives];
    const std::vector<uint32_t>& rows = done_.order[kCollectives];
    const auto by_host = [&](size_t i) { return t.tag.at(rows[i]) == collective::by_host; };
    const auto owner = [&](size_t i, bool host) -> int64_t {
        const uint32_t at = done_.collective_owner[rows[i]];
        return by_host(i) == host && at != kNoRow ? static_cast<int64_t>(at) : kNull;
    };
    out.integers("device_op_id", [&](size_t i) { return owner(i, false); });
    out.integers("host_op_id", [&](size_t i) { return owner(i, true); });
    out.integers("subtree_end_id", [&](size_t i) {
        const int64_t at = owner(i, true);
        return at == kNull ? kNull : static_cast<int64_t>(done_.subtree_end[static_cast<size_t>(at)]);
    });
    out.stored_texts("op", t.codes[collective::name], rows);
    out.stored_texts("group", t.codes[collective::group], rows);
    out.stored_texts("group_description", t.codes[collective::description], rows);
    out.stored("group_size", t.wide[collective::group_size], rows);
    out.stored_texts("group_ranks", t.codes[collective::ranks], rows);
    out.stored("sequence", t.wide[collective::sequence], rows);
    out.stored_texts("dtype", t.codes[collective::dtype], rows);
    out.stored("elements_in", t.wide[collective::elements_in], rows);
    out.stored("elements_out", t.wide[collective::elements_out], rows);
    out.stored("peer", t.wide[collective::peer], rows);
}

Batch Output::launches_of(const std::vector<uint32_t>& names) const {
    const std::unordered_set<uint32_t> wanted(names.begin(), names.end());
    const Rows& t = done_.tables.rows[kDevice];
    const std::vector<uint32_t>& rows = done_.order[kDevice];
    std::vector<size_t> found;
    for (size_t at = 0; at < rows.size() && !wanted.empty(); ++at) {
        if (done_.launch[at] == kNoRow || t.tag.at(rows[at]) != device::kernel) continue;
        if (wanted.count(t.codes[device::name].at(rows[at])) != 0) found.push_back(at);
    }
    Builder out(*this, 0, found.size());
    out.integers("device_op_id", [&](size_t i) { return static_cast<int64_t>(found[i]); });
    out.integers("launch_id",
                 [&](size_t i) { return static_cast<int64_t>(done_.launch[found[i]]); });
    return std::move(out.batch);
}

}  // namespace sightline
