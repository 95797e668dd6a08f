#include "columns/texts.h"

#include <cstring>
#include <memory>
#include <string_view>

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

}  // namespace sightline
