// Perfetto's traces.
#include "bindings/bind.h"

#include "perfetto/trace.h"

namespace sightline {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

namespace {

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

}  // namespace

void bind_perfetto(nb::module_& m) {
    using perfetto::PerfettoTrace;
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
        .def("counted", &counted_packets);
}

}  // namespace sightline
