// Pickles of plain data.
#include "bindings/bind.h"

#include "pickle/machine.h"
#include "pickle/rows.h"

namespace sightline {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

namespace {

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

}  // namespace

void bind_pickle(nb::module_& m) {
    nb::class_<DictRows>(m, "PickleRows")
        .def_prop_ro("rows", &DictRows::rows)
        .def_prop_ro("is_cut", &DictRows::is_cut);
    nb::class_<Pickle>(m, "Pickle")
        .def(nb::init<const Path&>(), "path"_a)
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
}

}  // namespace sightline
