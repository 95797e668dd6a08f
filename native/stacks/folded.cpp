#include "stacks/folded.h"

#include <algorithm>
#include <utility>

#include "columns/numbers.h"
#include "columns/texts.h"

namespace sightline {

namespace {

constexpr size_t kMostDigits = 18;

// What Python takes for a blank at a line's end, of ASCII.
bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f); }

bool starts_with(std::string_view text, std::string_view start) {
    return text.substr(0, start.size()) == start;
}

// Whether the frame is one of the device: `_[G]` for sources and kernels, `_[g]` for instructions.
bool is_of_device(std::string_view text) {
    if (text.size() < 4) return false;
    const std::string_view end = text.substr(text.size() - 4);
    return end == "_[G]" || end == "_[g]";
}

}  // namespace

void FoldedText::read(std::string_view data) {
    for (size_t at = 0; at < data.size();) {
        const size_t found = data.find('\n', at);
        const size_t end = found == std::string_view::npos ? data.size() : found;
        std::string_view line = data.substr(at, end - at);
        at = end + 1;
        while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
        if (line.empty() || line[0] == '#' || starts_with(line, "//")) continue;
        if (!keep(line)) rest_.push_back(line);
    }
}

bool FoldedText::keep(std::string_view line) {
    const size_t blank = line.rfind(' ');
    if (blank == std::string_view::npos) return false;
    const std::string_view count = line.substr(blank + 1);
    if (count.size() > kMostDigits || !is_digits(count)) return false;
    std::string_view stack = line.substr(0, blank);
    // iaprof ends each frame with ';', the last one too.
    if (!stack.empty() && stack.back() == ';') stack.remove_suffix(1);
    const size_t before = frames_.size();
    for (size_t at = 0;;) {
        const size_t end = std::min(stack.find(';', at), stack.size());
        const std::string_view text = stack.substr(at, end - at);
        if (is_of_device(text)) {
            frames_.resize(before);
            return false;
        }
        frames_.push_back(texts_.intern(text) - 1);
        if (end == stack.size()) break;
        at = end + 1;
    }
    lengths_.push_back(static_cast<int64_t>(frames_.size() - before));
    counts_.push_back(to_int(count));
    return true;
}

Batch FoldedText::lines() {
    Batch batch;
    batch.rows = static_cast<int64_t>(lengths_.size());
    batch.columns = {numbers_column("length", std::exchange(lengths_, {})),
                     numbers_column("count", std::exchange(counts_, {}))};
    return batch;
}

Batch FoldedText::frames() {
    Batch batch;
    batch.rows = static_cast<int64_t>(frames_.size());
    batch.columns.push_back(rows_column("frame", std::exchange(frames_, {})));
    return batch;
}

Batch FoldedText::texts() const { return all_texts(texts_, "vz"); }

}  // namespace sightline
