// What all bindings share: what Python gives and gets, and the functions that bind each folder.
#pragma once

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

#include <filesystem>
#include <memory>
#include <optional>

#include "columns/texts.h"
#include "passes/rows.h"

namespace sightline {

namespace nb = nanobind;
using nb::literals::operator""_a;

// Whatever Python takes for a file: names of files need not be UTF-8, as std::string would have to.
using Path = std::filesystem::path;

inline nb::object maybe(int64_t value) { return value == kNull ? nb::none() : nb::cast(value); }

inline nb::str text(std::string_view value) { return nb::str(value.data(), value.size()); }

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

void bind_columns(nb::module_& m);
void bind_ctf(nb::module_& m);
void bind_kineto(nb::module_& m);
void bind_nsysrep(nb::module_& m);
void bind_passes(nb::module_& m);
void bind_perfetto(nb::module_& m);
void bind_pickle(nb::module_& m);
void bind_probe(nb::module_& m);
void bind_stacks(nb::module_& m);
void bind_texts(nb::module_& m);

}  // namespace sightline
