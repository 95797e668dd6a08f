// Columns as Python gets and gives them, and the columns of a database's table.
#include "bindings/bind.h"

#include "sqlite/integers.h"

namespace sightline {

namespace {

nb::object stream_of(const Batch& batch) {
    return nb::steal(PyCapsule_New(batch.stream(), "arrow_array_stream", [](PyObject* capsule) {
        auto* stream = static_cast<ArrowArrayStream*>(
            PyCapsule_GetPointer(capsule, "arrow_array_stream"));
        const std::unique_ptr<ArrowArrayStream> owner(stream);
        if (stream->release != nullptr) stream->release(stream);
    }));
}

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

}  // namespace

void bind_columns(nb::module_& m) {
    m.def("bytes_of", [](const nb::object& frame) { return Given(frame, 1).bytes(); },
          "column"_a);
    m.def("integers", &integers, "path"_a, "root"_a, "columns"_a, "alias"_a,
          "threads"_a);

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
            [](const Batch& batch, const nb::object&) { return stream_of(batch); },
            "requested_schema"_a = nb::none());
}

}  // namespace sightline
