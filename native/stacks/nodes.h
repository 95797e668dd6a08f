// Stacks as a trie: what has the same parent and the same frame is one node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "columns/arrow.h"
#include "columns/keys.h"

namespace sightline {

// Nodes and frames have numbers from 0. Arguments that are no such number raise std::invalid_argument.
class StackNodes {
public:
    static constexpr int64_t kRoot = -1;  // stands for the parent of a stack's first frame
    static constexpr int64_t kNoFrame = -1;

    StackNodes() : slots_(64, 0) {}

    // The node that a path of frames leads to from a node or the root; that one if there are none.
    int64_t add(int64_t node, const std::vector<int64_t>& frames);

    // Paths from a node or the root, one after the other: `frames` has a column of them, `lengths` of
    // how many each path takes. A row each: `stack_id`, null where that is the root.
    Batch add_paths(int64_t from, const Keys& frames, const Keys& lengths);

    // A path for each row: its first column has the node that it begins at, or the root, each other
    // one a frame, or kNoFrame. `stack_id` as before.
    Batch add_rows(const Keys& rows);

    // A row a node: `parent_id`, null for a first frame, `frame_id` and `depth`, from 0.
    Batch table() const;

private:
    struct Node {
        int64_t parent;
        int64_t frame;
        int64_t depth;
    };

    void check(int64_t node) const;
    int64_t step(int64_t node, int64_t frame);
    size_t slot_of(int64_t parent, int64_t frame) const;
    void grow();

    std::vector<Node> nodes_;
    std::vector<uint32_t> slots_;  // open addressing, a power of two of them; a node + 1, or 0
};

}  // namespace sightline
