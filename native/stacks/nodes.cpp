#include "stacks/nodes.h"

#include <stdexcept>
#include <utility>

#include "columns/numbers.h"

namespace sightline {

namespace {

Batch ids_batch(std::vector<int64_t> ids) {
    Batch batch;
    batch.rows = static_cast<int64_t>(ids.size());
    batch.columns.push_back(numbers_column("stack_id", std::move(ids)));
    return batch;
}

}  // namespace

int64_t StackNodes::add(int64_t node, const std::vector<int64_t>& frames) {
    check(node);
    for (const int64_t frame : frames) node = step(node, frame);
    return node;
}

Batch StackNodes::add_paths(int64_t from, const Keys& frames, const Keys& lengths) {
    check(from);
    std::vector<int64_t> ids;
    ids.reserve(static_cast<size_t>(lengths.rows));
    int64_t at = 0;
    for (int64_t path = 0; path < lengths.rows; ++path) {
        const int64_t length = lengths.columns[0][path];
        if (length < 0 || length > frames.rows - at) {
            throw std::invalid_argument("paths are longer than the frames that there are");
        }
        int64_t node = from;
        for (const int64_t end = at + length; at < end; ++at) {
            node = step(node, frames.columns[0][at]);
        }
        ids.push_back(node == kRoot ? kNull : node);
    }
    return ids_batch(std::move(ids));
}

Batch StackNodes::add_rows(const Keys& rows) {
    std::vector<int64_t> ids;
    ids.reserve(static_cast<size_t>(rows.rows));
    for (int64_t row = 0; row < rows.rows; ++row) {
        int64_t node = rows.columns[0][row];
        check(node);
        for (size_t column = 1; column < rows.columns.size(); ++column) {
            const int64_t frame = rows.columns[column][row];
            if (frame != kNoFrame) node = step(node, frame);
        }
        ids.push_back(node == kRoot ? kNull : node);
    }
    return ids_batch(std::move(ids));
}

Batch StackNodes::table() const {
    std::vector<int64_t> parents, frames, depths;
    for (auto* column : {&parents, &frames, &depths}) column->reserve(nodes_.size());
    for (const Node& node : nodes_) {
        parents.push_back(node.parent == kRoot ? kNull : node.parent);
        frames.push_back(node.frame);
        depths.push_back(node.depth);
    }
    Batch batch;
    batch.rows = static_cast<int64_t>(nodes_.size());
    batch.columns = {numbers_column("parent_id", std::move(parents)),
                     numbers_column("frame_id", std::move(frames)),
                     numbers_column("depth", std::move(depths))};
    return batch;
}

void StackNodes::check(int64_t node) const {
    if (node < kRoot || node >= static_cast<int64_t>(nodes_.size())) {
        throw std::invalid_argument("no node of the trie");
    }
}

int64_t StackNodes::step(int64_t node, int64_t frame) {
    if (frame < 0) throw std::invalid_argument("no number of a frame");
    const size_t slot = slot_of(node, frame);
    if (slots_[slot] != 0) return static_cast<int64_t>(slots_[slot]) - 1;
    if (nodes_.size() >= UINT32_MAX - 1) throw std::length_error("too many different stacks");
    nodes_.push_back({node, frame, node == kRoot ? 0 : nodes_[static_cast<size_t>(node)].depth + 1});
    slots_[slot] = static_cast<uint32_t>(nodes_.size());
    if (nodes_.size() * 2 > slots_.size()) grow();
    return static_cast<int64_t>(nodes_.size()) - 1;
}

// Where the node is, or would be put.
size_t StackNodes::slot_of(int64_t parent, int64_t frame) const {
    uint64_t hash = static_cast<uint64_t>(parent) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 32 ^ static_cast<uint64_t>(frame)) * 0xD6E8FEB86659FD93u;
    const size_t mask = slots_.size() - 1;
    size_t slot = (hash ^ hash >> 32) & mask;
    while (slots_[slot] != 0) {
        const Node& node = nodes_[slots_[slot] - 1];
        if (node.parent == parent && node.frame == frame) break;
        slot = (slot + 1) & mask;
    }
    return slot;
}

void StackNodes::grow() {
    slots_.assign(slots_.size() * 2, 0);
    for (size_t i = 0; i < nodes_.size(); ++i) {
        slots_[slot_of(nodes_[i].parent, nodes_[i].frame)] = static_cast<uint32_t>(i + 1);
    }
}

}  // namespace sightline
