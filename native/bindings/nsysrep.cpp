// Reports of Nsight Systems: their blocks and events.
#include "bindings/bind.h"

#include "nsysrep/blocks.h"
#include "nsysrep/events.h"

namespace sightline {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

namespace {

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

void bind_nsysrep(nb::module_& m) {
    m.def("unpack_block", &unpack_block, "path"_a, "start"_a, "end"_a);

    nb::class_<Events>(m, "ReportEvents")
        .def(nb::init<const Path&, uint64_t, uint64_t, uint64_t,
                      const std::vector<GivenTable>&>(),
             "path"_a, "start"_a, "end"_a, "most_events"_a, "plans"_a)
        .def("read", &Events::read, "blocks"_a, Unlocked())
        .def("texts", &Events::texts, Unlocked())
        .def("rows", &Events::rows, "table"_a)
        .def("columns", &Events::columns, "table"_a, "names"_a)
        .def("take", &Events::take, "table"_a, "names"_a, "narrow"_a)
        .def("counted", &Events::counted);
}

}  // namespace sightline
