// Dicts at one place of a pickle as rows, and the lists of frames in them as call stacks.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "columns/arrow.h"
#include "columns/packed.h"
#include "pickle/objects.h"
#include "stacks/nodes.h"

namespace sightline {

// How a key's values become a column of integers. `number`: integers as they are, flags as 0 and 1.
// `text`: the code of a text, or of another value written as JSON. `stack`: the number of
// a list of frames, innermost first, in the trie of stacks. `skip`: null; read in another way.
enum class KeyKind : uint8_t { number, text, stack, skip };

struct WantedKey {
    std::string key;
    KeyKind kind;
};

// Call stacks as a trie, from lists of dicts with `name`, `filename` and `line`.
class StackTrie {
public:
    explicit StackTrie(Objects& objects);

    // The number of a stack, kNull for an empty one.
    int64_t add(uint32_t content);

    // The codes of function and file, and the line, of each frame.
    Batch frames() const;
    Batch stacks() const { return nodes_.table(); }
    uint64_t shortened() const { return shortened_; }

private:
    struct Frame {
        int64_t function, file, line;
    };
    static constexpr int64_t kUnknown = -1;
    uint32_t frame_of(Value dict);

    Objects& objects_;
    uint32_t name_, filename_, line_;
    std::vector<Frame> frames_;
    std::unordered_map<uint32_t, uint32_t> frame_of_dict_;
    std::unordered_map<std::string, uint32_t> frame_of_key_;
    StackNodes nodes_;
    std::vector<int64_t> stack_of_content_;  // kUnknown where it was not asked for yet
    uint64_t shortened_ = 0;
};

// The dicts that keys lead to, one after the other; lists on the way are gone through.
class DictRows {
public:
    // At most `most` rows: a list that is referred to again and again is no reason for more. Values
    // that are written as JSON take no more than some times `most` bytes, for the same reason.
    DictRows(Objects& objects, Value root, const std::vector<std::string>& path, uint64_t most);

    DictRows(const DictRows&) = delete;
    DictRows& operator=(const DictRows&) = delete;
    DictRows(DictRows&&) = default;

    size_t rows() const { return dicts_.size(); }
    bool is_cut() const { return cut_; }

    // The wanted keys of some rows, and two more columns. `_parent` is the row of the dict that the
    // row is in; of dicts in a list of lists its place in the outer one. `_other` is the code of
    // all keys that are not wanted, as JSON, null where there are none.
    Batch take(const std::vector<WantedKey>& wanted, StackTrie& stacks, size_t start,
               size_t count);

private:
    void add(Value value, size_t parent, uint64_t most, bool is_nested);
    int64_t cell_of(Value value, KeyKind kind, StackTrie& stacks);
    int64_t others_of(Value dict, const std::vector<Value>& wanted);
    int64_t written(std::string text);

    Objects& objects_;
    size_t json_left_;                                // bytes
    std::unordered_map<Value, int64_t> json_of_value_;  // the codes of what is written already
    Chunked<uint32_t> dicts_;
    Packed parents_;
    bool cut_ = false;
};

}  // namespace sightline
