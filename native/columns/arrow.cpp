#include "columns/arrow.h"

#include <cerrno>
#include <limits>
#include <memory>
#include <utility>

#include "columns/numbers.h"
#include "columns/order.h"

namespace sightline {

namespace {

// What an exported schema or array points to. The consumer may move the struct, not this.
struct SchemaOwner {
    std::string name, format;
    std::vector<ArrowSchema> children;
    std::vector<ArrowSchema*> pointers;
};

struct ArrayOwner {
    std::shared_ptr<BatchColumn> column;
    std::vector<const void*> buffers;
    std::vector<ArrowArray> children;
    std::vector<ArrowArray*> pointers;
};

struct StreamOwner {
    std::vector<std::shared_ptr<BatchColumn>> columns;
    int64_t rows = 0;
    bool done = false;
};

template <typename Struct, typename Owner>
void release(Struct* exported) {
    const std::unique_ptr<Owner> owner(static_cast<Owner*>(exported->private_data));
    for (Struct* child : owner->pointers) {
        if (child->release != nullptr) child->release(child);
    }
    exported->release = nullptr;
}

void fill(ArrowSchema& schema, std::unique_ptr<SchemaOwner> owner, int64_t flags) {
    for (ArrowSchema& child : owner->children) owner->pointers.push_back(&child);
    schema = {};
    schema.format = owner->format.c_str();
    schema.name = owner->name.c_str();
    schema.flags = flags;
    schema.n_children = static_cast<int64_t>(owner->pointers.size());
    schema.children = owner->pointers.data();
    schema.release = release<ArrowSchema, SchemaOwner>;
    schema.private_data = owner.release();
}

void fill(ArrowArray& array, std::unique_ptr<ArrayOwner> owner, int64_t length, int64_t nulls) {
    for (ArrowArray& child : owner->children) owner->pointers.push_back(&child);
    array = {};
    array.length = length;
    array.null_count = nulls;
    array.n_buffers = static_cast<int64_t>(owner->buffers.size());
    array.buffers = owner->buffers.data();
    array.n_children = static_cast<int64_t>(owner->pointers.size());
    array.children = owner->pointers.data();
    array.release = release<ArrowArray, ArrayOwner>;
    array.private_data = owner.release();
}

constexpr int64_t kNullable = 2;

int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
    const auto* owner = static_cast<StreamOwner*>(stream->private_data);
    auto whole = std::make_unique<SchemaOwner>();
    whole->format = "+s";
    whole->children.resize(owner->columns.size());
    for (size_t i = 0; i < owner->columns.size(); ++i) {
        auto child = std::make_unique<SchemaOwner>();
        child->name = owner->columns[i]->name;
        child->format = owner->columns[i]->format;
        fill(whole->children[i], std::move(child), kNullable);
    }
    fill(*out, std::move(whole), 0);
    return 0;
}

int get_next(ArrowArrayStream* stream, ArrowArray* out) {
    auto* owner = static_cast<StreamOwner*>(stream->private_data);
    if (owner->done) {
        *out = {};  // no release function: the end of the stream
        return 0;
    }
    owner->done = true;
    auto whole = std::make_unique<ArrayOwner>();
    whole->buffers = {nullptr};
    whole->children.resize(owner->columns.size());
    for (size_t i = 0; i < owner->columns.size(); ++i) {
        auto child = std::make_unique<ArrayOwner>();
        child->column = std::move(owner->columns[i]);
        const BatchColumn& column = *child->column;
        child->buffers = {column.valid.empty() ? nullptr : column.valid.data(), column.data};
        if (column.format == "vu" || column.format == "vz") {
            for (const auto& texts : column.texts) child->buffers.push_back(texts->data());
            child->buffers.push_back(column.text_sizes.data());
        }
        const int64_t nulls = column.nulls;
        fill(whole->children[i], std::move(child), owner->rows, nulls);
    }
    fill(*out, std::move(whole), owner->rows, 0);
    return 0;
}

template <typename Number>
std::shared_ptr<BatchColumn> column_of(const char* name, const char* format,
                                       std::vector<Number> values, Number missing) {
    auto column = std::make_shared<BatchColumn>();
    column->name = name;
    column->format = format;
    for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] == missing) column->set_null(i, values.size());
    }
    auto made = std::make_shared<std::vector<Number>>(std::move(values));
    column->data = made->data();
    column->values = std::move(made);
    return column;
}

}  // namespace

template <typename Number>
std::shared_ptr<BatchColumn> numbers_column(const char* name, std::vector<Number> values) {
    constexpr const char* format = sizeof(Number) == 1   ? "c"
                                   : sizeof(Number) == 2 ? "s"
                                   : sizeof(Number) == 4 ? "i"
                                                         : "l";
    return column_of(name, format, std::move(values), std::numeric_limits<Number>::min());
}

template std::shared_ptr<BatchColumn> numbers_column(const char*, std::vector<int8_t>);
template std::shared_ptr<BatchColumn> numbers_column(const char*, std::vector<int16_t>);
template std::shared_ptr<BatchColumn> numbers_column(const char*, std::vector<int32_t>);
template std::shared_ptr<BatchColumn> numbers_column(const char*, std::vector<int64_t>);

std::shared_ptr<BatchColumn> rows_column(const char* name, std::vector<uint32_t> values) {
    return column_of(name, "I", std::move(values), kNoRow);
}

ArrowArrayStream* Batch::stream() const {
    auto owner = std::make_unique<StreamOwner>();
    owner->columns = columns;
    owner->rows = rows;
    auto made = std::make_unique<ArrowArrayStream>();
    made->get_schema = get_schema;
    made->get_next = get_next;
    made->get_last_error = [](ArrowArrayStream*) -> const char* { return nullptr; };
    made->release = [](ArrowArrayStream* stream) {
        const std::unique_ptr<StreamOwner> gone(static_cast<StreamOwner*>(stream->private_data));
        stream->release = nullptr;
    };
    made->private_data = owner.release();
    return made.release();
}

}  // namespace sightline
