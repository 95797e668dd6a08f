#include "passes/edges.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "columns/order.h"
#include "columns/places.h"

namespace sightline {

namespace {

enum Column : size_t { kMoment, kTurn, kUid, kEdges, kStart = kEdges + 6, kEnd, kColumns };
constexpr size_t kLaunch = 1;  // of the three edges, the one that counts from a start

struct Node {
    int64_t moment;
    uint32_t row;
};

std::vector<Node> ordered(const NumberColumns& nodes) {
    std::vector<Node> order(static_cast<size_t>(nodes.rows));
    for (size_t i = 0; i < order.size(); ++i) {
        order[i] = {nodes.columns[kMoment][i], static_cast<uint32_t>(i)};
    }
    const NumberColumn& turn = nodes.columns[kTurn];
    const NumberColumn& uid = nodes.columns[kUid];
    merge_sort(order.data(), order.data() + order.size(), [&](const Node& a, const Node& b) {
        if (a.moment != b.moment) return a.moment < b.moment;
        if (turn[a.row] != turn[b.row]) return turn[a.row] < turn[b.row];
        return uid[a.row] != uid[b.row] ? uid[a.row] < uid[b.row] : a.row < b.row;
    });
    return order;
}

// Where in the order the node with a uid is. Of one recording (`stretch`) and one kind, ids are close
// together: those of calls, of their returns and of operations are each counted by themselves.
class PlacesByKind {
public:
    PlacesByKind(const NumberColumns& nodes, const std::vector<Node>& order, int64_t stretch)
        : stretch_(stretch) {
        const NumberColumn& uid = nodes.columns[kUid];
        for (size_t i = 0; i < order.size(); ++i) {
            if (uid[i] < 0) throw std::out_of_range("a node has no number");
            const size_t part = part_of(uid[i]);
            if (parts_.size() <= part) parts_.resize(part + 1);
            parts_[part].expect(uid[i] / kKinds);
        }
        for (Places& part : parts_) part.make_room();
        for (size_t i = 0; i < order.size(); ++i) {
            const int64_t own = uid[order[i].row];
            parts_[part_of(own)].put(own / kKinds, static_cast<uint32_t>(i));
        }
    }

    // kNoRow where there is none.
    uint32_t of(int64_t uid) const {
        if (uid < 0) return kNoRow;
        const size_t part = part_of(uid);
        return part < parts_.size() ? parts_[part].of(uid / kKinds) : kNoRow;
    }

private:
    static constexpr int64_t kKinds = 4;  // a uid is so many times an id, and the kind

    size_t part_of(int64_t uid) const {
        return static_cast<size_t>(uid / stretch_ * kKinds + uid % kKinds);
    }

    int64_t stretch_;
    std::vector<Places> parts_;
};

}  // namespace

Batch edges(const NumberColumns& nodes, int64_t stretch) {
    if (nodes.columns.size() != kColumns) throw std::invalid_argument("columns are missing");
    if (nodes.rows >= static_cast<int64_t>(kNoRow)) throw std::length_error("too many nodes");
    const std::vector<Node> order = ordered(nodes);
    const PlacesByKind places(nodes, order, stretch);
    const auto value = [&](size_t column, size_t i) {
        return nodes.columns[column][order[i].row];
    };
    std::array<std::vector<uint32_t>, 3> to;
    for (auto& column : to) column.assign(order.size(), kNoRow);
    std::vector<uint32_t> row(order.size());
    std::vector<int64_t> residual(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
        row[i] = order[i].row;
        const int64_t start = value(kStart, i);
        int64_t earliest = kNull;
        for (size_t edge = 0; edge < to.size(); ++edge) {
            const uint32_t before = places.of(value(kEdges + 2 * edge, i));
            // What would come before its cause (clocks apart) is no cause, nor is nothing.
            if (before >= i) continue;
            to[edge][i] = before;
            const int64_t moment = value(edge == kLaunch ? kStart : kEnd, before);
            const int64_t lag = value(kEdges + 2 * edge + 1, i);
            const int64_t apart = minus(start, moment);
            earliest = std::max(
                earliest, plus(moment, lag == kNull ? apart : std::min(lag, apart)));
        }
        residual[i] = earliest == kNull ? start : minus(start, earliest);
    }
    Batch batch;
    batch.rows = nodes.rows;
    batch.columns = {rows_column("row", std::move(row)),
                     rows_column("prev", std::move(to[0])),
                     rows_column("launch", std::move(to[1])),
                     rows_column("wait", std::move(to[2])),
                     numbers_column("residual_ns", std::move(residual))};
    return batch;
}

}  // namespace sightline
