// Stacks: nodes of their tree, and unwinding.
#include "bindings/bind.h"

#include "stacks/nodes.h"
#include "unwind/unwinder.h"

namespace sightline {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

namespace {

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

}  // namespace

void bind_stacks(nb::module_& m) {
    nb::class_<StackNodes>(m, "StackNodes")
        .def(nb::init<>())
        .def("add", &StackNodes::add, "node"_a, "frames"_a)
        .def("add_paths", &add_paths, "node"_a, "frames"_a, "lengths"_a)
        .def("add_rows", &add_rows, "rows"_a)
        .def("table", &StackNodes::table, Unlocked());

    nb::class_<UnwindTable>(m, "UnwindTable")
        .def(nb::new_(&make_unwind_table), "index"_a, "index_at"_a, "frames"_a,
             "frames_at"_a)
        .def("describe_rules", &describe_rules, "address"_a);
    nb::class_<Unwinder>(m, "Unwinder")
        .def(nb::init<>())
        .def("unwind", &unwind, "registers"_a, "stack"_a, "find"_a, "read"_a)
        .def("forget", &Unwinder::forget);
}

}  // namespace sightline
