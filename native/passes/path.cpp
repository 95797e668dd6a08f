#include "passes/path.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "columns/numbers.h"

namespace sightline {

namespace {

constexpr int64_t kInfinite = int64_t{1} << 62;
constexpr int64_t kMostNames = 1 << 16;  // sorts of nodes are few (replay/critical_path.py)

size_t place(int64_t rows, int64_t node) {
    if (node < 0 || node >= rows) throw std::out_of_range("an edge leads to no node");
    return static_cast<size_t>(node);
}

// What a node waited for longest, the moment of that, and what it does not explain of the start.
struct Binding {
    int64_t before = kNull;
    int64_t at = 0;
    int64_t rest = 0;
    PathStep edge = PathStep::rest;
};

struct Bindings {
    const NumberColumns& nodes;
    int64_t guess_lag;

    Binding find(size_t i) const {
        const NumberColumn& start = nodes.columns[0];
        const NumberColumn& end = nodes.columns[1];
        Binding found;
        found.rest = nodes.columns[9][i];
        int64_t arrives = 0;
        const auto follow = [&](size_t column, const NumberColumn& moments, PathStep edge) {
            const int64_t to = nodes.columns[column][i], lag = nodes.columns[column + 1][i];
            if (to == kNull || lag == kNull) return;
            const int64_t at = moments[place(nodes.rows, to)];
            if (found.before != kNull && plus(at, lag) <= arrives) return;
            arrives = plus(at, lag);
            found = {to, at, found.rest, edge};
        };
        follow(6, end, PathStep::wait);
        follow(4, start, PathStep::launch);
        follow(2, end, PathStep::prev);
        const int64_t guess = nodes.columns[8][i];
        if (guess == kNull) return found;
        // A replay may move what was guessed, since it does not hold anything back there.
        const int64_t at = end[place(nodes.rows, guess)];
        if (at > start[i] || (found.before != kNull && at <= arrives)) return found;
        const int64_t rest = minus(minus(start[i], at), guess_lag);
        return {guess, at, std::max(rest, int64_t{0}), PathStep::guess};
    }
};

// The member of each meeting that came last; of those that came together the last one counts.
std::unordered_map<int64_t, int64_t> find_last_members(const NumberColumns& nodes,
                                                       const NumberColumn& start,
                                                       const NumberColumn& meeting) {
    std::unordered_map<int64_t, int64_t> last;
    for (size_t i = 0; i < static_cast<size_t>(nodes.rows); ++i) {
        if (meeting[i] == kNull) continue;
        const auto [at, is_first] = last.try_emplace(meeting[i], static_cast<int64_t>(i));
        if (!is_first && start[i] >= start[static_cast<size_t>(at->second)]) {
            at->second = static_cast<int64_t>(i);
        }
    }
    return last;
}

// Goes back along the path and gives each of its pieces to `add`.
template <typename Add>
void walk(const NumberColumns& nodes, int64_t node, int64_t begin, int64_t end, int64_t guess_lag,
          Add add) {
    const NumberColumn& start = nodes.columns.at(0);
    const NumberColumn& meeting = nodes.columns.at(10);
    const Bindings bindings{nodes, guess_lag};
    const auto last = find_last_members(nodes, start, meeting);
    int64_t reach = end;  // everything from here on is explained
    int64_t steps = 0;
    while (reach > begin) {
        if (++steps > 2 * nodes.rows + 2) throw std::runtime_error("the edges form a circle");
        const size_t i = place(nodes.rows, node);
        if (meeting[i] != kNull) {
            const int64_t latest = last.at(meeting[i]);
            if (latest != node) {  // a collective: it ended because its last member had come
                node = latest;
                const int64_t met = start[place(nodes.rows, latest)];
                add(met, reach, static_cast<int64_t>(i), PathStep::meeting);
                reach = met;
                continue;
            }
        }
        if (reach > start[i]) add(start[i], reach, node, PathStep::own);
        reach = start[i];
        const Binding binding = bindings.find(i);
        if (binding.before == kNull) break;
        if (binding.rest != 0) add(minus(reach, binding.rest), reach, node, PathStep::rest);
        reach = minus(reach, binding.rest);
        if (reach > binding.at) add(binding.at, reach, node, binding.edge);
        // A launch leads back to its call's begin, which is where the path then goes on.
        // Operations of one stream may overlap: then the path follows the earlier one from here.
        reach = std::min(binding.at, reach);
        node = binding.before;
    }
    if (reach > begin) add(begin, reach, node, PathStep::beginning);
}

// Rows of numbers that become a batch.
template <size_t width>
struct Rows {
    std::array<const char*, width> names;
    std::array<std::vector<int64_t>, width> columns{};

    void add(const std::array<int64_t, width>& values) {
        for (size_t i = 0; i < width; ++i) columns[i].push_back(values[i]);
    }

    Batch finish() {
        Batch batch;
        batch.rows = static_cast<int64_t>(columns[0].size());
        for (size_t i = 0; i < width; ++i) {
            batch.columns.push_back(numbers_column(names[i], std::move(columns[i])));
        }
        return batch;
    }
};

}  // namespace

Batch path(const NumberColumns& nodes, int64_t node, int64_t begin, int64_t end,
           int64_t guess_lag) {
    Rows<4> pieces{{"start_ns", "end_ns", "node", "step"}};
    walk(nodes, node, begin, end, guess_lag,
         [&](int64_t from, int64_t to, int64_t of, PathStep step) {
             pieces.add({from, to, of, static_cast<int64_t>(step)});
         });
    return pieces.finish();
}

std::pair<Batch, Batch> sum_path(const NumberColumns& nodes, int64_t node, int64_t begin,
                                 int64_t end, int64_t guess_lag,
                                 const std::vector<int64_t>& kept) {
    const NumberColumn& sort = nodes.columns.at(11);
    std::vector<int64_t> sums;
    std::vector<bool> is_kept(kMostNames + 1);
    for (const int64_t name : kept) {
        if (name >= 0 && name <= kMostNames) is_kept[static_cast<size_t>(name)] = true;
    }
    Rows<3> pieces{{"start_ns", "end_ns", "node"}};
    walk(nodes, node, begin, end, guess_lag,
         [&](int64_t from, int64_t to, int64_t of, PathStep step) {
             from = std::max(from, begin);
             if (to <= from) return;
             const int64_t name = sort[static_cast<size_t>(of)] * kPathSteps +
                                  static_cast<int64_t>(step);
             if (name < 0 || name > kMostNames) throw std::out_of_range("a node has no sort");
             const auto at = static_cast<size_t>(name);
             if (is_kept[at]) {
                 pieces.add({from, to, of});
                 return;
             }
             if (at >= sums.size()) sums.resize(at + 1);
             sums[at] = plus(sums[at], minus(to, from));
         });
    Rows<2> all{{"name", "ns"}};
    for (size_t name = 0; name < sums.size(); ++name) {
        if (sums[name] != 0) all.add({static_cast<int64_t>(name), sums[name]});
    }
    return {all.finish(), pieces.finish()};
}

Batch slack(const Keys& nodes) {
    const int64_t* start = nodes.columns.at(0);
    const int64_t* end = nodes.columns.at(1);
    const int64_t* is_op = nodes.columns.at(2);
    const int64_t* residual = nodes.columns.at(3);
    const int64_t* meeting = nodes.columns.at(4);
    struct Meeting {
        std::vector<size_t> members;
        int64_t latest = INT64_MIN;
        int64_t spare = kNull;
    };
    const auto n = static_cast<size_t>(nodes.rows);
    std::unordered_map<int64_t, Meeting> meetings;
    int64_t last = 0;
    bool any = false;
    for (size_t i = 0; i < n; ++i) {
        if (meeting[i] >= 0) {
            Meeting& met = meetings[meeting[i]];
            met.members.push_back(i);
            met.latest = std::max(met.latest, start[i]);
        }
        if (is_op[i] == 0) continue;
        last = any ? std::max(last, end[i]) : end[i];
        any = true;
    }
    std::vector<int64_t> late(n, kInfinite);
    for (size_t i = 0; i < n; ++i) {
        if (is_op[i] != 0) late[i] = last - end[i];
    }
    for (size_t i = n; i-- > 0;) {
        int64_t due = start[i] - residual[i] + late[i];  // the latest moment for what it waits for
        if (meeting[i] >= 0) {
            // What follows any member has been seen by now: all end when the last has come.
            Meeting& met = meetings[meeting[i]];
            if (met.spare == kNull) {
                met.spare = kInfinite;
                for (const size_t member : met.members) met.spare = std::min(met.spare, late[member]);
            }
            due = met.latest - residual[i] + met.spare;
        }
        for (size_t edge = 0; edge < 3; ++edge) {
            const int64_t from = nodes.columns.at(5 + 2 * edge)[i];
            if (from == kNull) continue;
            const size_t before = place(nodes.rows, from);
            const int64_t* moment = edge == 1 ? start : end;  // a launch counts from its call's begin
            const int64_t spare = due - moment[before] - nodes.columns.at(6 + 2 * edge)[i];
            late[before] = std::min(late[before], spare);
        }
    }
    for (int64_t& value : late) {
        if (value >= kInfinite / 2) value = kNull;
    }
    Batch batch;
    batch.rows = nodes.rows;
    batch.columns = {numbers_column("slack_ns", std::move(late))};
    return batch;
}

}  // namespace sightline
