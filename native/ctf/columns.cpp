#include "ctf/columns.h"

#include <algorithm>
#include <utility>

namespace sightline::ctf {

namespace {

size_t width_of(Kind kind) {
    switch (kind) {
        case Kind::u8:
        case Kind::i8: return 1;
        case Kind::u16:
        case Kind::i16: return 2;
        case Kind::u32:
        case Kind::i32:
        case Kind::f32: return 4;
        case Kind::text:
        case Kind::blob: return sizeof(View);
        default: return 8;
    }
}

const char* format_of(Kind kind) {
    static const char* const formats[] = {"C", "S", "I", "L", "c", "s", "i", "l", "f", "g", "vz", "vz"};
    return formats[static_cast<size_t>(kind)];
}

}  // namespace

GrowingColumn::GrowingColumn(Kind kind) : kind_(kind), width_(width_of(kind)) {}

// A number is written in eight bytes whatever its width: there is always room for that many.
void GrowingColumn::grow() {
    bytes_.resize(bytes_.empty() ? std::max<size_t>(256, likely_) : 2 * bytes_.size());
}

void GrowingColumn::append_text(std::string_view text) {
    View view{};
    view.length = static_cast<int32_t>(text.size());
    if (text.size() <= sizeof view.bytes) {
        if (!text.empty()) std::memcpy(view.bytes, text.data(), text.size());
    } else {
        const uint32_t block = 0;
        const auto offset = static_cast<uint32_t>(texts_.size());
        std::memcpy(view.bytes, text.data(), 4);
        std::memcpy(view.bytes + 4, &block, 4);
        std::memcpy(view.bytes + 8, &offset, 4);
        texts_.insert(texts_.end(), text.begin(), text.end());
    }
    if (used_ + sizeof view > bytes_.size()) grow();
    std::memcpy(bytes_.data() + used_, &view, sizeof view);
    used_ += sizeof view;
}

void GrowingColumn::append_null() {
    nulls_.push_back(rows());
    if (kind_ == Kind::text || kind_ == Kind::blob) {
        append_text({});
    } else {
        append(0);
    }
}

void GrowingColumn::cut(size_t rows) {
    if (rows >= this->rows()) return;
    used_ = rows * width_;  // texts that nothing points to stay until the batch is taken
    while (!nulls_.empty() && nulls_.back() >= rows) nulls_.pop_back();
}

std::shared_ptr<BatchColumn> GrowingColumn::take(const std::string& name) {
    auto column = std::make_shared<BatchColumn>();
    const size_t all = rows();
    column->name = name;
    column->format = format_of(kind_);
    for (const size_t row : nulls_) column->set_null(row, all);
    auto values = std::make_shared<std::vector<uint8_t>>(std::move(bytes_));
    column->data = values->data();
    column->values = values;
    if (kind_ == Kind::text || kind_ == Kind::blob) {
        auto texts = std::make_shared<std::vector<char>>(std::move(texts_));
        column->text_sizes.push_back(static_cast<int64_t>(texts->size()));
        column->texts.push_back(std::move(texts));
    }
    // The next batch is likely to need as much.
    const size_t likely = used_ + sizeof(View);
    *this = GrowingColumn(kind_);
    likely_ = likely;
    return column;
}

}  // namespace sightline::ctf
