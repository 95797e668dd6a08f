// PyTorch's traces.
#include "bindings/bind.h"

#include "kineto/output.h"
#include "kineto/reader.h"

namespace sightline {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

namespace {

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
        out["has_mtia"] = all.has_mtia;
        out["has_hpu"] = all.has_hpu;
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

}  // namespace

void bind_kineto(nb::module_& m) {
    m.def("microseconds_to_ns", [](const std::string& text) -> nb::object {
        int64_t ns = 0;
        switch (microseconds_to_ns(text, ns)) {
            case Read::ok: return nb::cast(ns);
            case Read::none: return nb::none();
            default: throw nb::value_error("left to Python");
        }
    });
    m.def("item_end", [](const nb::bytes& data) {
        return end_of_value(data.c_str(), data.size());
    });

    nb::class_<Trace>(m, "Trace")
        .def(nb::init<const Path&, const Path&, unsigned, size_t>(), "path"_a,
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

}  // namespace sightline
