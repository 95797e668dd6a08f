// Binds the compiled readers and passes to Python as sightline._native (types: _native.pyi): a list of
// what Python may call, in one place, which is why it is long.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "columns/texts.h"
#include "ctf/streams.h"
#include "json/tables.h"
#include "nsysrep/blocks.h"
#include "nsysrep/events.h"
#include "passes/cover.h"
#include "passes/edges.h"
#include "sqlite/integers.h"
#include "kineto/output.h"
#include "passes/lanes.h"
#include "passes/ledger.h"
#include "perfetto/trace.h"
#include "passes/partition.h"
#include "pickle/machine.h"
#include "pickle/rows.h"
#include "probe/target.h"
#include "kineto/reader.h"
#include "passes/path.h"
#include "passes/peaks.h"
#include "passes/replay.h"
#include "passes/rows.h"
#include "passes/trees.h"
#include "stacks/folded.h"
#include "stacks/nodes.h"
#include "text/lines.h"
#include "unwind/unwinder.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace sightline {

// Whatever Python takes for a file: names of files need not be UTF-8, as std::string would have to.
using Path = std::filesystem::path;

namespace {

nb::object stream_of(const Batch& batch) {
    return nb::steal(PyCapsule_New(batch.stream(), "arrow_array_stream", [](PyObject* capsule) {
        auto* stream = static_cast<ArrowArrayStream*>(
            PyCapsule_GetPointer(capsule, "arrow_array_stream"));
        const std::unique_ptr<ArrowArrayStream> owner(stream);
        if (stream->release != nullptr) stream->release(stream);
    }));
}

nb::object maybe(int64_t value) { return value == kNull ? nb::none() : nb::cast(value); }

nb::str text(std::string_view value) { return nb::str(value.data(), value.size()); }

nb::object integers(const Path& path, uint32_t root, const std::vector<int>& columns,
                    int alias, unsigned threads) {
    std::optional<Integers> found;
    {
        const nb::gil_scoped_release release;
        found = integers_of(path.string(), {root, columns, alias}, threads);
    }
    if (!found.has_value()) return nb::none();
    nb::dict constants;
    for (const auto& [column, value] : found->constants) {
        constants[nb::cast(column)] = value.has_value() ? nb::cast(*value) : nb::none();
    }
    return nb::make_tuple(nb::cast(std::move(found->varying)), constants);
}

// The one batch of columns of numbers in a stream that Python gives. It is released with its owner.
class Given {
public:
    explicit Given(const nb::object& frame, std::optional<int64_t> columns = {})
        : capsule_(frame.attr("__arrow_c_stream__")()) {
        auto* stream = static_cast<ArrowArrayStream*>(
            PyCapsule_GetPointer(capsule_.ptr(), "arrow_array_stream"));
        if (stream == nullptr) throw nb::python_error();
        if (stream->get_schema(stream, &schema_) != 0 || stream->get_next(stream, &array_) != 0) {
            throw nb::value_error("the columns cannot be read");
        }
        if (array_.release == nullptr) return;  // no rows
        ArrowArray more{};
        if (stream->get_next(stream, &more) != 0 || more.release != nullptr) {
            if (more.release != nullptr) more.release(&more);
            throw nb::value_error("the columns are in several pieces");
        }
        if (columns.has_value() && array_.n_children != *columns) {
            throw nb::value_error("not the columns that are wanted");
        }
    }
    Given(const Given&) = delete;
    Given& operator=(const Given&) = delete;
    ~Given() {
        if (array_.release != nullptr) array_.release(&array_);
        if (schema_.release != nullptr) schema_.release(&schema_);
    }

    int64_t rows() const { return array_.length; }

    // Columns of int64 without nulls.
    Keys keys() const {
        Keys keys{rows(), {}};
        for (int64_t i = 0; i < schema_.n_children; ++i) {
            if (array_.release != nullptr && array_.children[i]->null_count != 0) {
                throw nb::value_error("a column has nulls");
            }
            keys.columns.push_back(
                static_cast<const int64_t*>(data(static_cast<size_t>(i), "l", 8)));
        }
        return keys;
    }

    // Columns of int64 or uint32, with their nulls, or of nothing else.
    NumberColumns columns() const {
        NumberColumns found{rows(), {}};
        for (int64_t i = 0; i < schema_.n_children; ++i) {
            found.columns.push_back(column(static_cast<size_t>(i)));
        }
        return found;
    }

    // The first column, of string views.
    TextColumn texts() const {
        TextColumn found;
        found.rows = rows();
        found.views = static_cast<const View*>(data(0, "vu", sizeof(View)));
        if (array_.release == nullptr) return found;
        const ArrowArray& one = *array_.children[0];
        if (one.null_count != 0) found.valid = static_cast<const uint8_t*>(one.buffers[0]);
        found.first_bit = static_cast<size_t>(one.offset + array_.offset);
        for (int64_t i = 2; i + 1 < one.n_buffers; ++i) {
            found.blocks.push_back(static_cast<const char*>(one.buffers[i]));
        }
        return found;
    }

    // The bytes of the first column, in the machine's order.
    nb::bytes bytes() const {
        if (array_.release == nullptr) return nb::bytes("", 0);
        const std::string_view format = schema_.children[0]->format;
        const size_t width = format == "l" ? 8 : format == "I" ? 4 : 1;
        const void* found = data(0, width == 1 ? "C" : format, width);
        return nb::bytes(static_cast<const char*>(found), static_cast<size_t>(rows()) * width);
    }

private:
    NumberColumn column(size_t i) const {
        NumberColumn found;
        const std::string_view format = schema_.children[i]->format;
        if (format == "n") return found;
        if (format == "I") {
            found.rows = static_cast<const uint32_t*>(data(i, "I", 4));
        } else {
            found.numbers = static_cast<const int64_t*>(data(i, "l", 8));
        }
        if (array_.release == nullptr || array_.children[i]->null_count == 0) return found;
        const ArrowArray& one = *array_.children[i];
        found.valid = static_cast<const uint8_t*>(one.buffers[0]);
        found.first_bit = static_cast<size_t>(one.offset + array_.offset);
        return found;
    }

    const void* data(size_t i, std::string_view format, size_t width) const {
        if (array_.release == nullptr) return nullptr;
        if (format != schema_.children[i]->format) throw nb::value_error("another type is wanted");
        const ArrowArray& one = *array_.children[i];
        return static_cast<const char*>(one.buffers[1]) +
               static_cast<size_t>(one.offset + array_.offset) * width;
    }

    nb::object capsule_;
    ArrowSchema schema_{};
    ArrowArray array_{};
};

Batch replay_of(const nb::object& frame) {
    const Given given(frame, 11);
    const NumberColumns nodes = given.columns();
    const nb::gil_scoped_release release;
    return replay(nodes);
}

Batch row_of_ids(const nb::object& ids, const nb::object& wanted, bool in_order) {
    const Given known(ids, 1), asked(wanted, 1);
    const Keys have = known.keys(), want = asked.keys();
    const nb::gil_scoped_release release;
    return row_of(have, want, in_order);
}

std::pair<Batch, Batch> number_of(const nb::object& frame) {
    const Given given(frame);
    const Keys keys = given.keys();
    const nb::gil_scoped_release release;
    return number(keys);
}

std::pair<Batch, Batch> number_texts_of(const nb::object& frame) {
    const Given given(frame, 1);
    const TextColumn column = given.texts();
    const nb::gil_scoped_release release;
    return number_texts(column);
}

Batch first_of(const nb::object& known, const nb::object& wanted) {
    const Given given(known), asked(wanted);
    const Keys have = given.keys(), want = asked.keys();
    if (want.columns.empty() || have.columns.size() != want.columns.size()) {
        throw nb::value_error("not the columns that are wanted");
    }
    const nb::gil_scoped_release release;
    return first(have, want);
}

Batch latest_of(const nb::object& events, const nb::object& queries, bool from_then_on) {
    const Given known(events), asked(queries);
    const Keys have = known.keys(), want = asked.keys();
    if (want.columns.empty() || have.columns.size() < want.columns.size()) {
        throw nb::value_error("not the columns that are wanted");
    }
    const nb::gil_scoped_release release;
    return latest(have, want, from_then_on);
}

Batch cover_of(const nb::object& intervals, const nb::object& queries) {
    const Given known(intervals), asked(queries);
    const Keys have = known.keys(), want = asked.keys();
    const size_t group = have.columns.size() - 2;  // of none at all that is more than any other
    if (want.columns.size() != group + 1 && want.columns.size() != group + 2) {
        throw nb::value_error("not the columns that are wanted");
    }
    const nb::gil_scoped_release release;
    return cover(have, want);
}

// Throws where a column of rows names one that is not among so many.
void check_rows(const NumberColumn& rows, int64_t count, int64_t among) {
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        const int64_t row = rows[i];
        if (row != kNull && (row < 0 || row >= among)) throw nb::value_error("there is no such row");
    }
    if (among >= static_cast<int64_t>(kNoRow)) throw nb::value_error("there are too many rows");
}

Batch climb_of(const nb::object& ranges, const nb::object& starts) {
    const Given given(ranges, 2), asked(starts, 2);
    const NumberColumns known = given.columns(), from = asked.columns();
    check_rows(known.columns[1], known.rows, known.rows);
    check_rows(from.columns[0], from.rows, known.rows);
    const nb::gil_scoped_release release;
    return climb(known, from);
}

Batch climb_to_of(const nb::object& parents, const nb::object& wanted, const nb::object& starts) {
    const Given given(parents, 1), meant(wanted, 1), asked(starts, 1);
    const NumberColumns up = given.columns(), to = meant.columns(), from = asked.columns();
    for (const NumberColumns* rows : {&up, &to, &from}) {
        check_rows(rows->columns[0], rows->rows, up.rows);
    }
    const nb::gil_scoped_release release;
    return climb_to(up, to, from);
}

Batch lanes_of(const nb::object& events) {
    const Given given(events, 4);
    const Keys keys = given.keys();
    const nb::gil_scoped_release release;
    return lanes(keys);
}

Batch edges_of(const nb::object& nodes, int64_t stretch) {
    const Given given(nodes);
    const NumberColumns columns = given.columns();
    const nb::gil_scoped_release release;
    return edges(columns, stretch);
}

Batch path_of(const nb::object& nodes, int64_t node, int64_t begin, int64_t end,
              int64_t guess_lag) {
    const Given given(nodes, 11);
    const NumberColumns columns = given.columns();
    const nb::gil_scoped_release release;
    return path(columns, node, begin, end, guess_lag);
}

std::pair<Batch, Batch> sum_path_of(const nb::object& nodes, int64_t node, int64_t begin,
                                    int64_t end, int64_t guess_lag,
                                    const std::vector<int64_t>& kept) {
    const Given given(nodes, 12);
    const NumberColumns columns = given.columns();
    const nb::gil_scoped_release release;
    return sum_path(columns, node, begin, end, guess_lag, kept);
}

Batch slack_of(const nb::object& nodes) {
    const Given given(nodes, 11);
    const Keys keys = given.keys();
    const nb::gil_scoped_release release;
    return slack(keys);
}

Batch trees_of(const nb::object& ranges, size_t width) {
    const Given given(ranges);
    const Keys keys = given.keys();
    const nb::gil_scoped_release release;
    return trees(keys, width);
}

Batch partition_of(const nb::object& intervals, const nb::object& windows, size_t classes) {
    const Given active(intervals), cut(windows);
    const Keys have = active.keys(), want = cut.keys();
    const nb::gil_scoped_release release;
    return partition(have, want, classes);
}

// A trace while it is read, then its tables.
class Trace {
public:
    Trace(const Path& path, const Path& folder, unsigned threads, size_t piece_bytes)
        : reader_(std::make_unique<Reader>(path.string(), folder.string(), threads, piece_bytes)) {}

    int events(size_t budget) { return static_cast<int>(reading().events(budget)); }

    nb::bytes window(size_t size) {
        std::string_view seen;
        {
            const nb::gil_scoped_release release;
            seen = reading().window(size);
        }
        return nb::bytes(seen.data(), seen.size());
    }

    void advance(size_t count) { reading().advance(count); }
    size_t position() { return reading().position(); }
    uint64_t stored() { return reading().stored(); }

    nb::object early_end() {
        const std::string why = reading().early_end();
        return why.empty() ? nb::none() : nb::object(text(why));
    }

    bool add(const nb::bytes& event) { return reading().add({event.c_str(), event.size()}); }

    Batch texts() {
        end_reading();
        return all_texts(tables_->texts, "vu");
    }

    std::vector<uint32_t> copies() { return finished().codes_of_copies(); }

    void finish(int64_t base, const std::vector<uint32_t>& annotation_steps,
                const std::vector<uint32_t>& op_steps) {
        end_reading();
        finished_ = std::make_unique<Finished>(*tables_, base, annotation_steps, op_steps);
    }

    void write(const Output::Copies& copies) {
        output_ = std::make_unique<Output>(finished(), copies);
    }

    size_t rows(const std::string& table) const { return output().rows(table); }
    Batch take(const std::string& table, size_t from, size_t count) const {
        return output().take(table, from, count);
    }
    Batch launches_of(const std::vector<uint32_t>& names) const {
        return output().launches_of(names);
    }

    nb::dict counted() {
        const Tables& all = tables_ != nullptr ? *tables_ : reading().tables;
        nb::dict out;
        out["events"] = all.events;
        out["not_events"] = all.not_events;
        out["negative_durations"] = all.negative_durations;
        out["unmatched_begins"] = all.unmatched_begins;
        out["span"] = all.has_span ? nb::object(nb::make_tuple(all.span_start, all.span_end))
                                   : nb::none();
        nb::list unknown;
        for (const auto& [code, count] : all.unknown) {
            unknown.append(nb::make_tuple(text(all.texts.text(code)), count));
        }
        out["unknown_categories"] = unknown;
        nb::dict processes;
        for (const auto& [pid, name] : all.process_names) {
            processes[nb::cast(pid)] = text(all.texts.text(name));
        }
        out["process_names"] = processes;
        nb::dict threads;
        for (const auto& [thread, name] : all.thread_names) {
            threads[nb::make_tuple(thread.first, thread.second)] = text(all.texts.text(name));
        }
        out["thread_names"] = threads;
        return out;
    }

    nb::dict facts() {
        const Facts& f = finished().facts;
        nb::dict out;
        out["host_rows"] = f.host_rows;
        out["device_rows"] = f.device_rows;
        out["without_device"] = f.without_device;
        out["unmatched"] = f.unmatched;
        out["ambiguous"] = f.ambiguous;
        out["zero_durations"] = f.zero_durations;
        out["whole_us"] = f.whole_us;
        out["has_stack"] = f.has_stack;
        out["has_shapes"] = f.has_shapes;
        out["has_python"] = f.layers[python] != 0;
        out["has_steps"] = f.layers[step] != 0;
        out["step_names"] = f.step_names;
        out["devices"] = f.devices;
        out["threads"] = f.threads;
        return out;
    }

private:
    Reader& reading() const {
        if (reader_ == nullptr) throw std::logic_error("the trace is read already");
        return *reader_;
    }
    Finished& finished() const {
        if (finished_ == nullptr) throw std::logic_error("finish() was not called");
        return *finished_;
    }
    const Output& output() const {
        if (output_ == nullptr) throw std::logic_error("write() was not called");
        return *output_;
    }

    // The reader's buffers and threads are given back; the rows stay.
    void end_reading() {
        if (reader_ == nullptr) return;
        tables_ = std::make_unique<Tables>(std::move(reader_->tables));
        reader_.reset();
        tables_->finish();
    }

    std::unique_ptr<Reader> reader_;
    std::unique_ptr<Tables> tables_;
    std::unique_ptr<Finished> finished_;
    std::unique_ptr<Output> output_;
};

// Plans as Python gives them: tuples in the order of the structs' members.
using GivenColumn =
    std::tuple<std::string, std::vector<FieldPath>, std::string, std::optional<int64_t>>;
using GivenChain = std::tuple<std::string, FieldPath, std::vector<GivenColumn>>;
using GivenTable = std::tuple<std::string, uint32_t, FieldPath, std::vector<int64_t>,
                              std::vector<GivenColumn>, std::vector<GivenChain>>;

std::vector<ColumnPlan> plans_of(const std::vector<GivenColumn>& given) {
    std::vector<ColumnPlan> plans;
    for (const auto& [name, paths, kind, missing] : given) {
        plans.push_back({name, paths, kind, missing.value_or(kNull)});
    }
    return plans;
}

// A report's events while they are read, then their tables.
class Events {
public:
    Events(const Path& path, uint64_t start, uint64_t end, uint64_t most_events,
           const std::vector<GivenTable>& given) {
        std::vector<TablePlan> plans;
        for (const auto& [name, payload, when, values, columns, chains] : given) {
            plans.push_back({name, payload, when, values, plans_of(columns), {}});
            for (const auto& [table, repeated, framed] : chains) {
                plans.back().chain.push_back({table, repeated, plans_of(framed)});
            }
        }
        events_ = std::make_unique<ReportEvents>(path.string(), start, end, most_events, plans);
    }

    bool read(size_t blocks) { return events_->read(blocks); }
    Batch texts() const { return all_texts(events_->texts(), "vz"); }
    size_t rows(const std::string& table) const { return events_->rows(table); }

    nb::tuple columns(const std::string& table, const std::vector<std::string>& names) const {
        return given([&] { return events_->columns(table, names); });
    }

    nb::tuple take(const std::string& table, const std::vector<std::string>& names,
                   const std::vector<std::string>& narrow) {
        return given([&] { return events_->take(table, names, narrow); });
    }

    nb::dict counted() const {
        nb::dict out;
        out["events"] = events_->events();
        out["position"] = events_->position();
        out["damaged_blocks"] = events_->damaged_blocks();
        out["damaged_events"] = events_->damaged_events();
        out["cut"] = events_->cut();
        out["too_many"] = events_->too_many();
        nb::dict unknown;
        for (const auto& [event, count] : events_->unknown()) {
            unknown[nb::make_tuple(event.first, event.second)] = count;
        }
        out["unknown"] = unknown;
        return out;
    }

private:
    template <typename Find>
    static nb::tuple given(Find find) {
        ReportEvents::Columns found;
        {
            const nb::gil_scoped_release release;
            found = find();
        }
        nb::dict constants;
        for (const auto& [place, value] : found.constants) constants[nb::cast(place)] = maybe(value);
        return nb::make_tuple(nb::cast(std::move(found.varying)), constants);
    }

    std::unique_ptr<ReportEvents> events_;
};

// A pickle of plain data while it is read, then dicts of it as rows.
class Pickle {
public:
    explicit Pickle(const Path& path) : machine_(path.string()), stacks_(machine_.objects()) {}

    bool read(uint64_t budget) { return machine_.read(budget); }
    const Machine& machine() const { return machine_; }
    const StackTrie& stacks() const { return stacks_; }
    Batch texts() { return all_texts(machine_.objects().texts, "vz"); }
    DictRows rows(const std::vector<std::string>& path) {
        return DictRows(machine_.objects(), machine_.root(), path, machine_.position());
    }
    Batch take(DictRows& rows, const std::vector<std::pair<std::string, std::string>>& wanted,
               size_t start, size_t count) {
        std::vector<WantedKey> keys;
        for (const auto& [key, kind] : wanted) {
            keys.push_back({key, kind == "number"  ? KeyKind::number
                                 : kind == "text"  ? KeyKind::text
                                 : kind == "stack" ? KeyKind::stack
                                                   : KeyKind::skip});
        }
        return rows.take(keys, stacks_, start, count);
    }

private:
    Machine machine_;
    StackTrie stacks_;
};

Batch peaks_without(const nb::object& sums, const nb::object& blocks, int64_t groups) {
    const Given given_sums(sums, 2), given_blocks(blocks, 4);
    const Keys all = given_sums.keys(), taken = given_blocks.keys();
    const nb::gil_scoped_release release;
    return find_peaks_without(all, taken, groups);
}

Batch add_to(Ledger& ledger, const nb::object& events) {
    const Given given(events, 4);
    const Keys keys = given.keys();
    const nb::gil_scoped_release release;
    return ledger.add(keys);
}

nb::dict counted_packets(const perfetto::PerfettoTrace& trace) {
    const perfetto::PerfettoTrace::Counts& counts = trace.counts();
    nb::dict out;
    out["packets"] = counts.packets;
    out["damaged"] = counts.damaged;
    out["skipped"] = counts.skipped;
    out["lost"] = counts.lost;
    out["bad_times"] = counts.bad_times;
    out["unknown_names"] = counts.unknown_names;
    out["unread"] = trace.unread();
    out["is_broken"] = trace.is_broken();
    out["is_too_long"] = trace.is_too_long();
    return out;
}

// A literal, the name of the field behind it and its kind; no kind where there is no field.
using GivenPart = std::tuple<std::string, std::string, std::string>;

std::vector<std::vector<LinePart>> patterns_of(
    const std::vector<std::vector<GivenPart>>& given) {
    static const std::unordered_map<std::string, FieldKind> kinds{
        {"int", FieldKind::integer}, {"word", FieldKind::word}, {"number", FieldKind::number},
        {"cell", FieldKind::cell},   {"text", FieldKind::text}, {"free", FieldKind::free},
        {"any", FieldKind::any}};
    std::vector<std::vector<LinePart>> patterns;
    for (const auto& parts : given) {
        patterns.emplace_back();
        for (const auto& [literal, name, kind] : parts) {
            patterns.back().push_back(
                {literal, name, kind.empty() ? FieldKind::any : kinds.at(kind), !kind.empty()});
        }
    }
    return patterns;
}

// Of each pattern its lines' columns, and the texts of each field that has some; all other lines.
nb::tuple split_lines(const nb::bytes& data, const std::vector<std::vector<GivenPart>>& given) {
    LineTables tables(patterns_of(given));
    {
        const nb::gil_scoped_release release;
        tables.read({data.c_str(), data.size()});
    }
    nb::list found;
    for (size_t i = 0; i < tables.patterns(); ++i) {
        nb::dict texts;
        const std::vector<std::string> names = tables.text_fields(i);
        for (size_t k = 0; k < names.size(); ++k) {
            texts[nb::cast(names[k])] = nb::cast(tables.texts(i, k));
        }
        found.append(nb::make_tuple(nb::cast(tables.take(i)), texts));
    }
    return nb::make_tuple(found, nb::cast(tables.rest()));
}

// Lines and their frames as columns, the texts of frames, and all other lines.
nb::tuple split_folded(const nb::bytes& data) {
    FoldedText text;
    {
        const nb::gil_scoped_release release;
        text.read({data.c_str(), data.size()});
    }
    nb::list rest;
    for (const std::string_view line : text.rest()) rest.append(nb::bytes(line.data(), line.size()));
    return nb::make_tuple(nb::cast(text.lines()), nb::cast(text.frames()), nb::cast(text.texts()),
                          rest);
}

Batch add_paths(StackNodes& nodes, int64_t from, const nb::object& frames,
                const nb::object& lengths) {
    const Given given(frames, 1), sizes(lengths, 1);
    const Keys steps = given.keys(), paths = sizes.keys();
    const nb::gil_scoped_release release;
    return nodes.add_paths(from, steps, paths);
}

Batch add_rows(StackNodes& nodes, const nb::object& rows) {
    const Given given(rows);
    const Keys keys = given.keys();
    if (keys.columns.empty()) throw nb::value_error("not the columns that are wanted");
    const nb::gil_scoped_release release;
    return nodes.add_rows(keys);
}

std::shared_ptr<UnwindTable> make_unwind_table(const nb::bytes& index, uint64_t index_at,
                                               const nb::bytes& frames, uint64_t frames_at) {
    return std::make_shared<UnwindTable>(std::string(index.c_str(), index.size()), index_at,
                                         std::string(frames.c_str(), frames.size()), frames_at);
}

// The rules at an address: the frame's address as a register and an offset (-1: an expression), and
// where it holds the caller's registers: by number, their distances from it. None: no rules.
nb::object describe_rules(const UnwindTable& table, uint64_t address) {
    UnwindRules rules;
    if (!table.find(address, rules)) return nb::none();
    nb::dict saved;
    for (int number = 0; number < kRegisters; number++) {
        const UnwindRule& rule = rules.registers[static_cast<size_t>(number)];
        if (rule.kind == UnwindRule::Kind::offset) saved[nb::int_(number)] = nb::int_(rule.number);
    }
    return nb::make_tuple(rules.base, rules.offset, saved);
}

// Addresses, and how the stack ended: 0 where the thread began, 1 with the copy, 2 not known why.
nb::tuple unwind(Unwinder& unwinder, const nb::bytes& registers, const nb::bytes& stack,
                 const nb::callable& find, const nb::callable& read) {
    using Found = std::optional<std::tuple<uint64_t, uint64_t, uint64_t, std::shared_ptr<UnwindTable>>>;
    const auto find_code = [&find](uint64_t address) -> std::optional<CodeRange> {
        const auto found = nb::cast<Found>(find(address));
        if (!found) return std::nullopt;
        const auto& [start, end, shift, table] = *found;
        return CodeRange{start, end, shift, table};
    };
    const auto read_code = [&read](uint64_t address) {
        const auto code = nb::cast<nb::bytes>(read(address));
        return std::string(code.c_str(), code.size());
    };
    const Unwound found = unwinder.unwind({registers.c_str(), registers.size()},
                                          {stack.c_str(), stack.size()}, find_code, read_code);
    const nb::bytes addresses(found.addresses.data(), found.addresses.size() * sizeof(uint64_t));
    return nb::make_tuple(addresses, found.is_whole ? 0 : found.is_cut ? 1 : 2);
}

// A table's path, and of each cell its name, path and kind.
using GivenCell = std::tuple<std::string, std::vector<std::string>, std::string>;
using GivenRows = std::pair<std::vector<std::string>, std::vector<GivenCell>>;

// Of each table its columns, and lengths and items of its lists; the texts. None where the document
// is left to Python.
nb::object read_json(const nb::bytes& data, const std::vector<GivenRows>& given) {
    static const std::unordered_map<std::string, CellKind> kinds{
        {"int", CellKind::integer}, {"float", CellKind::decimal}, {"text", CellKind::text},
        {"length", CellKind::length}, {"ints", CellKind::integers}};
    std::vector<WantedTable> wanted;
    for (const auto& [path, cells] : given) {
        wanted.push_back({path, {}});
        for (const auto& [name, place, kind] : cells) {
            wanted.back().cells.push_back({name, place, kinds.at(kind)});
        }
    }
    JsonTables tables(wanted);
    {
        const nb::gil_scoped_release release;
        if (!tables.read({data.c_str(), data.size()})) wanted.clear();
    }
    if (wanted.size() != given.size()) return nb::none();
    nb::list found;
    for (size_t i = 0; i < wanted.size(); ++i) {
        nb::dict lists;
        for (size_t k = 0; k < wanted[i].cells.size(); ++k) {
            const WantedCell& cell = wanted[i].cells[k];
            if (cell.kind != CellKind::integers) continue;
            lists[nb::cast(cell.name)] =
                nb::make_tuple(nb::cast(tables.lengths(i, k)), nb::cast(tables.items(i, k)));
        }
        found.append(nb::make_tuple(nb::cast(tables.take(i)), lists));
    }
    return nb::make_tuple(found, nb::cast(tables.texts()));
}

// The block at a place of a file, and where it ends; None where there is no whole one.
nb::object unpack_block(const Path& path, uint64_t start, uint64_t end) {
    std::vector<uint8_t> bytes;
    uint64_t position = 0;
    {
        const nb::gil_scoped_release release;
        Blocks blocks(path.string(), start, end);
        if (blocks.next(bytes) != Blocks::Got::ok) return nb::none();
        position = blocks.position();
    }
    return nb::make_tuple(nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                          position);
}

}  // namespace

}  // namespace sightline

NB_MODULE(_native, m) {
    using sightline::Batch;
    using sightline::Events;
    using sightline::Trace;
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;

    nb::register_exception_translator([](const std::exception_ptr& error, void*) {
        try {
            std::rethrow_exception(error);
        } catch (const std::system_error& failed) {
            errno = failed.code().value();
            PyErr_SetFromErrno(PyExc_OSError);
        }
    });

    m.def("reads_zstd", &sightline::reads_zstd);
    m.def("microseconds_to_ns", [](const std::string& text) -> nb::object {
        int64_t ns = 0;
        switch (sightline::microseconds_to_ns(text, ns)) {
            case sightline::Read::ok: return nb::cast(ns);
            case sightline::Read::none: return nb::none();
            default: throw nb::value_error("left to Python");
        }
    });
    // Tables come from Polars' allocator, which can't use what readers freed in the C library's.
    m.def("give_back_memory", [] {
#if defined(__GLIBC__)
        malloc_trim(0);
#endif
    }, Unlocked());
    m.def("item_end", [](const nb::bytes& data) {
        return sightline::end_of_value(data.c_str(), data.size());
    });

    m.def("bytes_of", [](const nb::object& frame) { return sightline::Given(frame, 1).bytes(); },
          "column"_a);
    m.def("replay", &sightline::replay_of, "nodes"_a);
    m.def("lanes", &sightline::lanes_of, "events"_a);
    m.def("edges", &sightline::edges_of, "nodes"_a, "stretch"_a);
    m.def("path", &sightline::path_of, "nodes"_a, "node"_a, "begin"_a, "end"_a, "guess_lag"_a);
    m.def("sum_path", &sightline::sum_path_of, "nodes"_a, "node"_a, "begin"_a, "end"_a,
          "guess_lag"_a, "kept"_a);
    m.def("slack", &sightline::slack_of, "nodes"_a);
    m.def("partition", &sightline::partition_of, "intervals"_a, "windows"_a, "classes"_a);
    m.def("peaks_without", &sightline::peaks_without, "sums"_a, "blocks"_a, "groups"_a);
    m.def("trees", &sightline::trees_of, "ranges"_a, "width"_a);
    m.def("row_of", &sightline::row_of_ids, "ids"_a, "wanted"_a, "in_order"_a);
    m.def("first", &sightline::first_of, "known"_a, "wanted"_a);
    m.def("number", &sightline::number_of, "rows"_a);
    m.def("number_texts", &sightline::number_texts_of, "column"_a);
    m.def("latest", &sightline::latest_of, "events"_a, "queries"_a, "from_then_on"_a);
    m.def("cover", &sightline::cover_of, "intervals"_a, "queries"_a);
    m.def("climb", &sightline::climb_of, "ranges"_a, "starts"_a);
    m.def("climb_to", &sightline::climb_to_of, "parents"_a, "wanted"_a, "starts"_a);
    m.def("split_lines", &sightline::split_lines, "data"_a, "patterns"_a);
    m.def("read_json", &sightline::read_json, "data"_a, "tables"_a);
    m.def("split_folded", &sightline::split_folded, "data"_a);
    m.def("integers", &sightline::integers, "path"_a, "root"_a, "columns"_a, "alias"_a,
          "threads"_a);

    nb::class_<sightline::StackNodes>(m, "StackNodes")
        .def(nb::init<>())
        .def("add", &sightline::StackNodes::add, "node"_a, "frames"_a)
        .def("add_paths", &sightline::add_paths, "node"_a, "frames"_a, "lengths"_a)
        .def("add_rows", &sightline::add_rows, "rows"_a)
        .def("table", &sightline::StackNodes::table, Unlocked());

    nb::class_<Batch>(m, "Batch")
        .def_prop_ro("rows", [](const Batch& batch) { return batch.rows; })
        .def("split",
             [](const Batch& batch) {
                 std::vector<Batch> columns;
                 for (const auto& column : batch.columns) columns.push_back({batch.rows, {column}});
                 return columns;
             })
        .def(
            "__arrow_c_stream__",
            [](const Batch& batch, const nb::object&) { return sightline::stream_of(batch); },
            "requested_schema"_a = nb::none());

    nb::class_<sightline::UnwindTable>(m, "UnwindTable")
        .def(nb::new_(&sightline::make_unwind_table), "index"_a, "index_at"_a, "frames"_a,
             "frames_at"_a)
        .def("describe_rules", &sightline::describe_rules, "address"_a);
    nb::class_<sightline::Unwinder>(m, "Unwinder")
        .def(nb::init<>())
        .def("unwind", &sightline::unwind, "registers"_a, "stack"_a, "find"_a, "read"_a)
        .def("forget", &sightline::Unwinder::forget);

    m.def("find_probe_target", &sightline::find_probe_target);
    m.def("time_probe_target", &sightline::time_probe_target, "calls"_a);
    m.def("unpack_block", &sightline::unpack_block, "path"_a, "start"_a, "end"_a);

    nb::class_<Events>(m, "ReportEvents")
        .def(nb::init<const sightline::Path&, uint64_t, uint64_t, uint64_t,
                      const std::vector<sightline::GivenTable>&>(),
             "path"_a, "start"_a, "end"_a, "most_events"_a, "plans"_a)
        .def("read", &Events::read, "blocks"_a, Unlocked())
        .def("texts", &Events::texts, Unlocked())
        .def("rows", &Events::rows, "table"_a)
        .def("columns", &Events::columns, "table"_a, "names"_a)
        .def("take", &Events::take, "table"_a, "names"_a, "narrow"_a)
        .def("counted", &Events::counted);

    using sightline::Ledger;
    nb::class_<Ledger>(m, "Ledger")
        .def(nb::init<bool>(), "keeps_blocks"_a)
        .def("add", &sightline::add_to, "events"_a)
        .def("earlier", &Ledger::earlier, Unlocked())
        .def("blocks", &Ledger::blocks, Unlocked())
        .def_prop_ro("lost_frees", &Ledger::lost_frees);

    using sightline::perfetto::PerfettoTrace;
    nb::class_<PerfettoTrace>(m, "PerfettoTrace")
        .def(nb::init<uint64_t, uint64_t>(), "most_bytes"_a, "most_rows"_a)
        .def("feed",
             [](PerfettoTrace& trace, const nb::bytes& piece) {
                 const auto* data = reinterpret_cast<const uint8_t*>(piece.c_str());
                 const size_t size = piece.size();
                 const nb::gil_scoped_release release;
                 return trace.feed(data, size);
             }, "piece"_a)
        .def("take", &PerfettoTrace::take, "table"_a, Unlocked())
        .def("texts", [](const PerfettoTrace& t) { return all_texts(t.texts(), "vz"); }, Unlocked())
        .def("counted", &sightline::counted_packets);

    using sightline::ctf::Streams;
    nb::class_<Streams>(m, "CtfStreams")
        .def("__init__",
             [](Streams* streams, const nb::bytes& plan, const std::vector<sightline::Path>& paths) {
                 const std::vector<std::string> names(paths.begin(), paths.end());
                 new (streams) Streams(reinterpret_cast<const uint8_t*>(plan.c_str()), plan.size(),
                                       names);
             }, "plan"_a, "paths"_a)
        .def("read", &Streams::read, "most_events"_a, "most_bytes"_a, Unlocked())
        .def("rows", &Streams::rows, "table"_a)
        .def("take", &Streams::take, "table"_a, Unlocked())
        .def("take_packets", &Streams::take_packets, Unlocked())
        .def_prop_ro("events", &Streams::events)
        .def_prop_ro("damaged_packets", &Streams::damaged_packets)
        .def_prop_ro("foreign_packets", &Streams::foreign_packets)
        .def("problems", [](const Streams& streams) {
            nb::list all;
            for (const Streams::Problem& one : streams.problems()) {
                all.append(nb::make_tuple(static_cast<int>(one.damage), one.file, one.byte));
            }
            return all;
        });

    using sightline::Pickle;
    using sightline::DictRows;
    nb::class_<DictRows>(m, "PickleRows")
        .def_prop_ro("rows", &DictRows::rows)
        .def_prop_ro("is_cut", &DictRows::is_cut);
    nb::class_<Pickle>(m, "Pickle")
        .def(nb::init<const sightline::Path&>(), "path"_a)
        .def("read", &Pickle::read, "budget"_a, Unlocked())
        .def_prop_ro("position", [](const Pickle& p) { return p.machine().position(); })
        .def_prop_ro("stored", [](const Pickle& p) { return p.machine().stored(); })
        .def_prop_ro("refused", [](const Pickle& p) { return p.machine().refused(); })
        .def_prop_ro("damage", [](const Pickle& p) { return p.machine().damage(); })
        .def_prop_ro("shortened", [](const Pickle& p) { return p.machine().shortened(); })
        .def("texts", &Pickle::texts, Unlocked())
        .def("rows", &Pickle::rows, "path"_a, Unlocked(), nb::keep_alive<0, 1>())
        .def("take", &Pickle::take, "rows"_a, "wanted"_a, "start"_a, "count"_a, Unlocked())
        .def("frames", [](const Pickle& p) { return p.stacks().frames(); }, Unlocked())
        .def("stacks", [](const Pickle& p) { return p.stacks().stacks(); }, Unlocked())
        .def_prop_ro("stacks_shortened", [](const Pickle& p) { return p.stacks().shortened(); });

    nb::class_<Trace>(m, "Trace")
        .def(nb::init<const sightline::Path&, const sightline::Path&, unsigned, size_t>(), "path"_a,
             "folder"_a, "threads"_a, "piece_bytes"_a = size_t{1} << 20)
        .def("events", &Trace::events, "budget"_a, Unlocked())
        .def("window", &Trace::window, "size"_a)
        .def("advance", &Trace::advance, "count"_a)
        .def_prop_ro("position", &Trace::position)
        .def_prop_ro("stored", &Trace::stored)
        .def_prop_ro("early_end", &Trace::early_end)
        .def("add", &Trace::add, "event"_a)
        .def("texts", &Trace::texts, Unlocked())
        .def("counted", &Trace::counted)
        .def("finish", &Trace::finish, "base"_a, "annotation_steps"_a, "op_steps"_a, Unlocked())
        .def("facts", &Trace::facts)
        .def("copies", &Trace::copies, Unlocked())
        .def("write", &Trace::write, "copies"_a, Unlocked())
        .def("rows", &Trace::rows, "table"_a)
        .def("take", &Trace::take, "table"_a, "start"_a, "count"_a, Unlocked())
        .def("launches_of", &Trace::launches_of, "names"_a, Unlocked());
}
