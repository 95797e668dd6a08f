// Joins of calls, device operations, waits and arrows. Rows are looked up where they lie sorted.
#include <map>
#include <unordered_map>

#include "kineto/finish.h"

namespace sightline {

namespace {

struct Pair {
    uint32_t thread;
    int64_t time;
    bool operator==(const Pair& other) const {
        return thread == other.thread && time == other.time;
    }
};

struct PairHash {
    size_t operator()(const Pair& pair) const {
        return static_cast<size_t>((static_cast<uint64_t>(pair.time) ^ pair.thread) *
                                   0x9E3779B97F4A7C15u >> 7);
    }
};

}  // namespace

void Finished::find_calls() {
    const Rows& hosts = tables.rows[kHost];
    const std::vector<uint32_t>& rows = order[kHost];
    const auto is_call = [&](uint32_t row) {
        const uint8_t recorded = hosts.tag.at(row) & kLayerBits;
        return (recorded == runtime || recorded == driver) &&
               hosts.value(host::correlation, row) != kNull;
    };
    size_t count = 0;
    for (const uint32_t row : rows) count += is_call(row) ? 1 : 0;
    if (count == 0) return;
    calls_.reserve(count);
    const auto& threads = tables.threads.all();
    for (uint32_t at = 0; at < rows.size(); ++at) {
        if (!is_call(rows[at])) continue;
        const int64_t correlation = hosts.value(host::correlation, rows[at]);
        const uint32_t thread = hosts.codes[host::thread].at(rows[at]);
        Calls::Call& call = calls_.at(correlation);
        if (call.row == kNoRow) {
            // A driver call inside a runtime call may share its number: the outer one, which
            // comes first, is the program's.
            call.correlation = correlation;
            call.row = at;
            call.thread = thread;
        } else if (threads[call.thread - 1].first != threads[thread - 1].first) {
            call.several_processes = true;
        }
    }
}

void Finished::find_launches() {
    const Rows& devices = tables.rows[kDevice];
    launch.assign(order[kDevice].size(), kNoRow);
    bool all = true;
    for (size_t at = 0; at < launch.size(); ++at) {
        Calls::Call* call = calls_.find(devices.value(device::correlation, order[kDevice][at]));
        if (call == nullptr) {
            all = false;
            continue;
        }
        launch[at] = call->row;
        if (call->several_processes && !call->used) ++facts.ambiguous;
        call->used = true;
    }
    if (!all && tables.rows[kFlows].rows != 0) by_arrow();
}

void Finished::find_syncs() {
    const Rows& syncs = tables.rows[kSyncs];
    sync_call.assign(order[kSyncs].size(), kNoRow);
    for (size_t at = 0; at < sync_call.size(); ++at) {
        const Calls::Call* call = calls_.find(syncs.value(sync::correlation, order[kSyncs][at]));
        if (call != nullptr) sync_call[at] = call->row;
    }
}

// The first host range in preorder that starts at a time on a thread and is of these layers. Of calls
// those with a number come first; ROCm's older profilers give none.
uint32_t Finished::first_at(uint32_t thread, int64_t time, uint8_t lowest, uint8_t highest) const {
    const auto& [pid, tid] = tables.threads.all()[thread - 1];
    if (pid == kNull || tid == kNull) return kNoRow;
    const Rows& hosts = tables.rows[kHost];
    const std::vector<uint32_t>& rows = order[kHost];
    const uint32_t rank = thread_rank_[thread];
    const auto end = rows.begin() + thread_begin_[rank + 1];
    auto at = std::lower_bound(rows.begin() + thread_begin_[rank], end, time,
                               [&](uint32_t row, int64_t wanted) {
                                   return hosts.value(host::start, row) < wanted;
                               });
    uint32_t unnumbered = kNoRow;
    for (; at != end && hosts.value(host::start, *at) == time; ++at) {
        const uint8_t its = layer(*at);
        if (its < lowest || its > highest) continue;
        const auto place = static_cast<uint32_t>(at - rows.begin());
        if (its < runtime || hosts.value(host::correlation, *at) != kNull) return place;
        if (unnumbered == kNoRow) unnumbered = place;
    }
    return unnumbered;
}

// Device operations without a call of their own number take the one that an arrow starts at.
void Finished::by_arrow() {
    const Rows& flows = tables.rows[kFlows];
    const Rows& devices = tables.rows[kDevice];
    std::unordered_map<Pair, std::pair<uint64_t, uint32_t>, PairHash> wanted;  // order, call
    constexpr uint64_t none = UINT64_MAX;
    for (size_t at = 0; at < launch.size(); ++at) {
        if (launch[at] != kNoRow) continue;
        const uint32_t row = order[kDevice][at];
        const uint32_t thread = devices.codes[device::thread].at(row);
        const auto& [pid, tid] = tables.threads.all()[thread - 1];
        if (pid == kNull || tid == kNull) continue;
        wanted.emplace(Pair{thread, devices.value(device::start, row)}, std::pair{none, kNoRow});
    }
    if (wanted.empty()) return;
    const auto each = [&](bool starts, auto&& act) {
        for (size_t row = 0; row < flows.rows; ++row) {
            const uint8_t tag = flows.tag.at(row);
            if ((tag & flow::launch) == 0 || ((tag & flow::is_start) != 0) != starts) continue;
            const int64_t time = flows.value(flow::time, row);
            if (!fits(time)) continue;
            act(flows.value(flow::id, row), flows.codes[flow::thread].at(row), time, row);
        }
    };
    // Of arrows with the same number the first that starts at a call counts.
    std::unordered_map<int64_t, std::pair<uint64_t, uint32_t>> calls;
    each(true, [&](int64_t id, uint32_t thread, int64_t time, size_t row) {
        if (calls.count(id) != 0) return;
        const uint32_t call = first_at(thread, time, runtime, driver);
        if (call != kNoRow) calls.emplace(id, std::pair{static_cast<uint64_t>(row), call});
    });
    each(false, [&](int64_t id, uint32_t thread, int64_t time, size_t) {
        const auto call = calls.find(id);
        const auto at = wanted.find(Pair{thread, time});
        if (call == calls.end() || at == wanted.end()) return;
        if (call->second.first < at->second.first) at->second = call->second;
    });
    for (size_t at = 0; at < launch.size(); ++at) {
        if (launch[at] != kNoRow) continue;
        const uint32_t row = order[kDevice][at];
        const auto found = wanted.find(
            Pair{devices.codes[device::thread].at(row), devices.value(device::start, row)});
        if (found != wanted.end()) launch[at] = found->second.second;
    }
}

// The forward op of a backward op: by arrow, else by sequence number.
void Finished::find_forward() {
    const Rows& hosts = tables.rows[kHost];
    const Rows& flows = tables.rows[kFlows];
    const std::vector<uint32_t>& rows = order[kHost];
    const auto set = [&](uint32_t backward, uint32_t value) {
        if (forward.empty()) forward.assign(rows.size(), kNoRow);
        forward[backward] = value;
    };

    // Autograd gives a backward op the thread of its forward op (never 0) and the same number.
    struct Numbered {
        int64_t sequence, start;
        uint32_t at;
        bool operator<(const Numbered& other) const {
            return std::tie(sequence, start, at) <
                   std::tie(other.sequence, other.start, other.at);
        }
    };
    const auto number_of = [&](uint32_t row) -> int64_t {
        const int64_t sequence = hosts.value(host::sequence, row);
        return sequence >= 0 && layer(row) == op ? sequence : kNull;
    };
    if (hosts.wide[host::sequence].data() != nullptr) {
        std::vector<Numbered> ops;
        for (uint32_t at = 0; at < rows.size(); ++at) {
            const int64_t sequence = number_of(rows[at]);
            if (sequence == kNull || (hosts.tag.at(rows[at]) & kBackward) != 0) continue;
            ops.push_back({sequence, hosts.value(host::start, rows[at]), at});
        }
        std::sort(ops.begin(), ops.end());
        for (uint32_t at = 0; at < rows.size() && !ops.empty(); ++at) {
            const int64_t sequence = number_of(rows[at]);
            if (sequence == kNull || (hosts.tag.at(rows[at]) & kBackward) == 0) continue;
            const Numbered key{sequence, hosts.value(host::start, rows[at]), kNoRow};
            const auto after = std::upper_bound(ops.begin(), ops.end(), key);
            if (after != ops.begin() && (after - 1)->sequence == sequence) {
                set(at, (after - 1)->at);
            }
        }
    }

    // Arrows: of pairs that end on the same op, the one whose start comes first in the file.
    std::unordered_map<int64_t, std::pair<uint64_t, uint32_t>> starts;
    const auto each = [&](bool is_start, auto&& act) {
        for (size_t row = 0; row < flows.rows; ++row) {
            const uint8_t tag = flows.tag.at(row);
            if ((tag & flow::forward_backward) == 0) continue;
            if (((tag & flow::is_start) != 0) != is_start) continue;
            const int64_t time = flows.value(flow::time, row);
            if (!fits(time)) continue;
            const uint32_t at = first_at(flows.codes[flow::thread].at(row), time, op, op);
            if (at != kNoRow) act(flows.value(flow::id, row), at, row);
        }
    };
    each(true, [&](int64_t id, uint32_t at, size_t row) {
        starts.emplace(id, std::pair{static_cast<uint64_t>(row), at});
    });
    std::unordered_map<uint32_t, std::pair<uint64_t, uint32_t>> found;
    each(false, [&](int64_t id, uint32_t at, size_t) {
        const auto start = starts.find(id);
        if (start == starts.end()) return;
        const auto [entry, is_new] = found.emplace(at, start->second);
        if (!is_new && start->second.first < entry->second.first) entry->second = start->second;
    });
    for (const auto& [backward, start] : found) set(backward, start.second);
}

}  // namespace sightline
