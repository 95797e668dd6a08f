#include "pickle/rows.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "columns/numbers.h"

namespace sightline {

namespace {

// As in core/model/stack_trie.py: deeper ones are a mistake or an attack.
constexpr size_t kMaxDepth = 1024;
constexpr size_t kMostJson = 64 << 10;
constexpr int kMostJsonDepth = 16;
// What all values take as JSON: a flight recorder's stacks take as many bytes as the file, unless
// they share parts of each other.
constexpr size_t kFreeJson = 32 << 20, kJsonPerByte = 8;

void write_text(std::string_view text, std::string& out) {
    out += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<uint8_t>(c) < 0x20) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            out += escaped;
        } else {
            out += c;
        }
    }
    out += '"';
}

void write(const Objects& objects, Value value, int depth, std::string& out);

void write_pairs(const Objects& objects, const std::vector<Value>& pairs, int depth,
                 std::string& out) {
    const char* between = "";
    out += '{';
    for (size_t i = 0; i + 1 < pairs.size() && out.size() <= kMostJson; i += 2) {
        out += between;
        if (tag_of(pairs[i]) == Tag::text) {
            // Always a text, however deep: a key of JSON is nothing else.
            write_text(objects.texts.text(static_cast<uint32_t>(payload_of(pairs[i]))), out);
        } else {
            std::string key;
            write(objects, pairs[i], depth + 1, key);
            write_text(key, out);
        }
        out += ": ";
        write(objects, pairs[i + 1], depth + 1, out);
        between = ", ";
    }
    out += '}';
}

void write(const Objects& objects, Value value, int depth, std::string& out) {
    if (depth > kMostJsonDepth || out.size() > kMostJson) {
        out += "null";
        return;
    }
    switch (tag_of(value)) {
        case Tag::text:
            write_text(objects.texts.text(static_cast<uint32_t>(payload_of(value))), out);
            return;
        case Tag::dict: write_pairs(objects, objects.pairs_of(value), depth, out); return;
        case Tag::list:
        case Tag::tuple: {
            const char* between = "";
            out += '[';
            objects.each_item(objects.content_of(value), [&](Value item) {
                out += between;
                write(objects, item, depth + 1, out);
                between = ", ";
                return out.size() <= kMostJson;
            });
            out += ']';
            return;
        }
        default: break;
    }
    if (const auto integer = objects.integer(value)) {
        out += std::to_string(*integer);
    } else if (const auto real = objects.real(value); real && std::isfinite(*real)) {
        char digits[32];
        std::snprintf(digits, sizeof digits, "%.17g", *real);
        out += digits;
    } else {
        out += value == kTrue ? "true" : value == kFalse ? "false" : "null";
    }
}

std::string write_json(const Objects& objects, Value value) {
    std::string out;
    write(objects, value, 0, out);
    return out;
}

int64_t code_of(std::optional<Value> value) {
    return value && tag_of(*value) == Tag::text ? static_cast<int64_t>(payload_of(*value)) : kNull;
}

}  // namespace

StackTrie::StackTrie(Objects& objects)
    : objects_(objects),
      name_(objects.texts.intern("name")),
      filename_(objects.texts.intern("filename")),
      line_(objects.texts.intern("line")) {}

uint32_t StackTrie::frame_of(Value dict) {
    const auto [known, is_new] =
        frame_of_dict_.try_emplace(static_cast<uint32_t>(payload_of(dict)), 0);
    if (!is_new) return known->second;
    Frame frame{code_of(objects_.find(dict, name_)), code_of(objects_.find(dict, filename_)), kNull};
    if (const auto line = objects_.find(dict, line_)) {
        frame.line = objects_.integer(*line).value_or(kNull);
    }
    const std::string key(reinterpret_cast<const char*>(&frame), sizeof frame);
    const auto [same, is_first] =
        frame_of_key_.try_emplace(key, static_cast<uint32_t>(frames_.size()));
    if (is_first) frames_.push_back(frame);
    return known->second = same->second;
}

int64_t StackTrie::add(uint32_t content) {
    if (content == Objects::kEmpty) return kNull;
    if (content >= stack_of_content_.size()) {
        stack_of_content_.resize(std::max(objects_.contents(), size_t{content} + 1), kUnknown);
    }
    if (stack_of_content_[content] != kUnknown) return stack_of_content_[content];
    std::vector<int64_t> path;
    objects_.each_item(content, [&](Value item) {
        if (tag_of(item) == Tag::dict) path.push_back(frame_of(item));
        return true;
    });
    if (path.size() > kMaxDepth) {  // the innermost frames say most
        path.resize(kMaxDepth);
        ++shortened_;
    }
    std::reverse(path.begin(), path.end());
    const int64_t node = nodes_.add(StackNodes::kRoot, path);
    return stack_of_content_[content] = node == StackNodes::kRoot ? kNull : node;
}

Batch StackTrie::frames() const {
    std::vector<int64_t> functions, files, lines;
    for (const Frame& frame : frames_) {
        functions.push_back(frame.function);
        files.push_back(frame.file);
        lines.push_back(frame.line);
    }
    Batch batch;
    batch.rows = static_cast<int64_t>(frames_.size());
    batch.columns = {numbers_column("function", std::move(functions)),
                     numbers_column("file", std::move(files)),
                     numbers_column("line", std::move(lines))};
    return batch;
}

DictRows::DictRows(Objects& objects, Value root, const std::vector<std::string>& path, uint64_t most)
    : objects_(objects), json_left_(kFreeJson + kJsonPerByte * most) {
    add(root, 0, most, false);
    for (const std::string& key : path) {
        const uint32_t code = objects_.texts.intern(key);
        const Chunked<uint32_t> before = std::move(dicts_);
        dicts_ = {};
        parents_ = {};
        for (size_t i = 0; i < before.size() && !cut_; ++i) {
            const auto value = objects_.find(make_value(Tag::dict, before[i]), code);
            if (value) add(*value, i, most, false);
        }
    }
}

void DictRows::add(Value value, size_t parent, uint64_t most, bool is_nested) {
    if (tag_of(value) == Tag::dict) {
        if (dicts_.size() >= most) {
            cut_ = true;
            return;
        }
        dicts_.push_back(static_cast<uint32_t>(payload_of(value)));
        parents_.append(static_cast<int64_t>(parent));
        return;
    }
    size_t place = 0;
    objects_.each_item(objects_.content_of(value), [&](Value item) {
        if (tag_of(item) == Tag::dict) {
            add(item, parent, most, true);
        } else if (!is_nested) {
            add(item, place, most, true);
        }
        // Empty lists that are gone through again and again count, too.
        return ++place < most && !cut_;
    });
}

int64_t DictRows::cell_of(Value value, KeyKind kind, StackTrie& stacks) {
    if (value == kNone) return kNull;
    switch (kind) {
        case KeyKind::number:
            return value == kTrue    ? 1
                   : value == kFalse ? 0
                                     : objects_.integer(value).value_or(kNull);
        case KeyKind::stack: return stacks.add(objects_.content_of(value));
        case KeyKind::skip: return kNull;
        default: break;
    }
    if (tag_of(value) == Tag::text) return static_cast<int64_t>(payload_of(value));
    const bool is_shared =
        tag_of(value) == Tag::list || tag_of(value) == Tag::tuple || tag_of(value) == Tag::dict;
    if (!is_shared) return objects_.texts.intern(write_json(objects_, value));
    if (const auto known = json_of_value_.find(value); known != json_of_value_.end()) {
        return known->second;
    }
    const int64_t code = json_left_ == 0 ? written({}) : written(write_json(objects_, value));
    return json_of_value_[value] = code;
}

// The code of a value as JSON; null, and the rows are cut, where there was no room for more.
int64_t DictRows::written(std::string text) {
    if (json_left_ == 0) {
        cut_ = true;
        return kNull;
    }
    json_left_ -= std::min(json_left_, text.size());
    return objects_.texts.intern(text);
}

int64_t DictRows::others_of(Value dict, const std::vector<Value>& wanted) {
    const auto is_wanted = [&](Value key) {
        return std::find(wanted.begin(), wanted.end(), key) != wanted.end();
    };
    if (json_left_ == 0) return written({});
    const std::vector<Value> pairs = objects_.pairs_of(dict);
    std::vector<Value> others;
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
        if (!is_wanted(pairs[i])) others.insert(others.end(), {pairs[i], pairs[i + 1]});
    }
    if (others.empty()) return kNull;
    std::string text;
    write_pairs(objects_, others, 0, text);
    return written(std::move(text));
}

Batch DictRows::take(const std::vector<WantedKey>& wanted, StackTrie& stacks, size_t start,
                 size_t count) {
    const size_t end = start >= rows() ? start : std::min(rows(), start + count);
    Batch batch;
    batch.rows = static_cast<int64_t>(end - start);
    const auto fill = [&](const char* name, auto cell) {
        std::vector<int64_t> values;
        values.reserve(end - start);
        for (size_t row = start; row < end; ++row) values.push_back(cell(row));
        batch.columns.push_back(numbers_column(name, std::move(values)));
    };
    // Where each shape has a key: -1 where it has none.
    const auto places_of = [&](uint32_t key) {
        std::vector<int> places(objects_.shapes(), -1);
        for (uint32_t shape = 0; shape < places.size(); ++shape) {
            const std::vector<uint32_t>& keys = objects_.keys_of(shape);
            for (size_t i = 0; i < keys.size(); ++i) {
                if (keys[i] == key) places[shape] = static_cast<int>(i);
            }
        }
        return places;
    };
    std::vector<Value> keys;
    std::vector<size_t> known(objects_.shapes(), 0);  // keys of a shape that are wanted
    for (const WantedKey& one : wanted) {
        const uint32_t key = objects_.texts.intern(one.key);
        keys.push_back(make_value(Tag::text, key));
        const std::vector<int> places = places_of(key);
        for (size_t shape = 0; shape < places.size(); ++shape) known[shape] += places[shape] >= 0;
        if (one.kind == KeyKind::skip) {
            fill(one.key.c_str(), [](size_t) { return kNull; });
            continue;
        }
        fill(one.key.c_str(), [&](size_t row) {
            const Value dict = make_value(Tag::dict, dicts_[row]);
            const uint32_t shape = objects_.shape_of(dict);
            if (shape == Objects::kLoose) {
                return cell_of(objects_.find(dict, key).value_or(kNone), one.kind, stacks);
            }
            if (places[shape] < 0) return kNull;
            return cell_of(objects_.value_at(dict, static_cast<size_t>(places[shape])), one.kind,
                           stacks);
        });
    }
    fill("_parent", [&](size_t row) { return parents_.at(row); });
    fill("_other", [&](size_t row) {
        const Value dict = make_value(Tag::dict, dicts_[row]);
        const uint32_t shape = objects_.shape_of(dict);
        const bool all = shape != Objects::kLoose && known[shape] == objects_.keys_of(shape).size();
        return all ? kNull : others_of(dict, keys);
    });
    return batch;
}

}  // namespace sightline
