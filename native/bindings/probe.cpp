// A target of the probe's own, to time what a probe costs.
#include "bindings/bind.h"

#include "probe/target.h"

namespace sightline {

void bind_probe(nb::module_& m) {
    m.def("find_probe_target", &find_probe_target);
    m.def("time_probe_target", &time_probe_target, "calls"_a);
}

}  // namespace sightline
