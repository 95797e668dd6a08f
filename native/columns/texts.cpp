#include "columns/texts.h"

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "columns/order.h"

namespace sightline {

std::vector<View> views_of(const Dictionary& texts) {
    std::vector<View> views(texts.size() + 1);
    for (uint32_t code = 1; code <= texts.size(); ++code) {
        const std::string_view text = texts.text(code);
        View& view = views[code];
        view.length = static_cast<int32_t>(text.size());
        if (text.size() <= sizeof view.bytes) {
            std::memcpy(view.bytes, text.data(), text.size());
            continue;
        }
        const uint32_t block = texts.block_of(code);
        const auto offset = static_cast<uint32_t>(text.data() - texts.blocks()[block]->data());
        std::memcpy(view.bytes, text.data(), 4);
        std::memcpy(view.bytes + 4, &block, 4);
        std::memcpy(view.bytes + 8, &offset, 4);
    }
    return views;
}

std::vector<int64_t> sizes_of(const Dictionary& texts) {
    std::vector<int64_t> sizes;
    for (const auto& block : texts.blocks()) sizes.push_back(static_cast<int64_t>(block->size()));
    return sizes;
}

Batch all_texts(const Dictionary& texts, const char* format) {
    auto views = std::make_shared<std::vector<View>>(views_of(texts));
    auto column = std::make_shared<BatchColumn>();
    column->name = "text";
    column->format = format;
    column->values = views;
    column->data = views->data() + 1;
    column->texts = texts.blocks();
    column->text_sizes = sizes_of(texts);
    Batch batch;
    batch.rows = static_cast<int64_t>(texts.size());
    batch.columns.push_back(column);
    return batch;
}

namespace {

// Equal views are equal texts. Most rows repeat one of few: these are found without a look at the
// text. Of views that meet in one slot the last one stays.
class KnownViews {
public:
    KnownViews() : known_(kSlots) {}

    // The place for the view's code, 0 where it is not known.
    uint32_t& code_of(const View& view) {
        uint64_t words[2];
        std::memcpy(words, &view, sizeof words);
        const uint64_t mixed = (words[0] ^ words[1] * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
        Known& known = known_[mixed >> (64 - kBits)];
        if (known.words[0] != words[0] || known.words[1] != words[1]) {
            known = {{words[0], words[1]}, 0};
        }
        return known.code;
    }

private:
    static constexpr unsigned kBits = 10;
    static constexpr size_t kSlots = size_t{1} << kBits;
    struct Known {
        uint64_t words[2];
        uint32_t code;
    };
    std::vector<Known> known_;
};

std::string_view text_of(const TextColumn& column, const View& view) {
    const auto length = static_cast<size_t>(view.length);
    if (length <= sizeof view.bytes) return {view.bytes, length};
    uint32_t block = 0, offset = 0;
    std::memcpy(&block, view.bytes + 4, 4);
    std::memcpy(&offset, view.bytes + 8, 4);
    return {column.blocks[block] + offset, length};
}

}  // namespace

std::pair<Batch, Batch> number_texts(const TextColumn& column) {
    const auto rows = static_cast<size_t>(column.rows);
    if (rows >= kNoRow) throw std::length_error("too many rows");
    Dictionary texts;
    KnownViews known;
    std::vector<uint32_t> places(rows);
    for (size_t row = 0; row < rows; ++row) {
        const size_t bit = column.first_bit + row;
        if (column.valid != nullptr && (column.valid[bit / 8] >> (bit % 8) & 1) == 0) {
            places[row] = kNoRow;
            continue;
        }
        const View& view = column.views[row];
        uint32_t& code = known.code_of(view);
        if (code == 0) code = texts.intern(text_of(column, view));
        places[row] = code - 1;
    }
    Batch batch;
    batch.rows = column.rows;
    batch.columns = {rows_column("place", std::move(places))};
    return {std::move(batch), all_texts(texts, "vu")};
}

}  // namespace sightline
