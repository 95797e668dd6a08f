// Streams of the Common Trace Format.
#include "bindings/bind.h"

#include "ctf/streams.h"

namespace sightline {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

void bind_ctf(nb::module_& m) {
    using ctf::Streams;
    nb::class_<Streams>(m, "CtfStreams")
        .def("__init__",
             [](Streams* streams, const nb::bytes& plan, const std::vector<Path>& paths) {
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
        .def_prop_ro("backward_events", &Streams::backward_events)
        .def("problems", [](const Streams& streams) {
            nb::list all;
            for (const Streams::Problem& one : streams.problems()) {
                all.append(nb::make_tuple(static_cast<int>(one.damage), one.file, one.byte));
            }
            return all;
        });
}

}  // namespace sightline
