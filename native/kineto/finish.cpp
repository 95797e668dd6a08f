#include "kineto/finish.h"

#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <unordered_map>

namespace sightline {

namespace {

uint64_t spread(int64_t correlation) {
    const auto product =
        static_cast<unsigned __int128>(static_cast<uint64_t>(correlation)) * 0x9E3779B97F4A7C15u;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

void Calls::reserve(size_t calls) {
    size_t size = 16;
    while (size < calls + calls / 2) size *= 2;
    slots_.assign(size, Call{});
}

Calls::Call& Calls::at(int64_t correlation) {
    const size_t mask = slots_.size() - 1;
    size_t slot = spread(correlation) & mask;
    while (slots_[slot].row != kNoRow && slots_[slot].correlation != correlation) {
        slot = (slot + 1) & mask;
    }
    return slots_[slot];
}

Calls::Call* Calls::find(int64_t correlation) {
    if (slots_.empty() || correlation == kNull) return nullptr;
    Call& call = at(correlation);
    return call.row == kNoRow ? nullptr : &call;
}

Finished::Finished(Tables& all, int64_t base_ns, const std::vector<uint32_t>& annotation_steps,
                   const std::vector<uint32_t>& op_steps)
    : tables(all),
      base(base_ns),
      annotation_steps_(annotation_steps.begin(), annotation_steps.end()),
      op_steps_(op_steps.begin(), op_steps.end()) {
    for (const Rows& rows : tables.rows) {
        if (rows.rows >= kNoRow) throw std::length_error("a table has more than 4 billion rows");
    }
    std::thread devices([this] { order_devices(); });
    try {
        order_hosts();
        nest_hosts();
    } catch (...) {
        devices.join();
        throw;
    }
    devices.join();
    order_others();
    find_calls();
    find_launches();
    find_syncs();
    calls_.clear();
    find_forward();
    find_owners();
    gather_facts();
}

// Times that do not fit once the base is added are left out.
bool Finished::fits(int64_t time) const {
    const int64_t limit = kMaxInt - base;
    return time != kNull && time >= -limit && time <= limit;
}

uint8_t Finished::layer(size_t row) const {
    const Rows& hosts = tables.rows[kHost];
    const uint8_t recorded = hosts.tag.at(row) & kLayerBits;
    if (recorded == annotation && !annotation_steps_.empty()) {
        if (annotation_steps_.count(hosts.codes[host::name].at(row)) != 0) return step;
    } else if (recorded == op && !op_steps_.empty()) {
        if (op_steps_.count(hosts.codes[host::name].at(row)) != 0) return step;
    }
    return recorded;
}

void Finished::order_hosts() {
    const Rows& hosts = tables.rows[kHost];
    const auto& known = tables.threads.all();
    std::vector<uint32_t> sorted(known.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    // kNull is the smallest number, so threads without ids come first.
    std::sort(sorted.begin(), sorted.end(),
              [&](uint32_t a, uint32_t b) { return known[a] < known[b]; });
    thread_rank_.assign(known.size() + 1, 0);
    for (uint32_t i = 0; i < sorted.size(); ++i) thread_rank_[sorted[i] + 1] = i;

    const auto counts = [&](size_t row) {
        return (hosts.tag.at(row) & kOpen) == 0 && fits(hosts.value(host::start, row)) &&
               fits(hosts.value(host::end, row));
    };
    thread_begin_.assign(known.size() + 1, 0);
    for (size_t row = 0; row < hosts.rows; ++row) {
        if (counts(row)) ++thread_begin_[thread_rank_[hosts.codes[host::thread].at(row)] + 1];
    }
    std::partial_sum(thread_begin_.begin(), thread_begin_.end(), thread_begin_.begin());
    std::vector<uint32_t>& rows = order[kHost];
    rows.resize(thread_begin_.back());
    std::vector<uint32_t> next(thread_begin_.begin(), thread_begin_.end());
    for (size_t row = 0; row < hosts.rows; ++row) {
        if (!counts(row)) continue;
        rows[next[thread_rank_[hosts.codes[host::thread].at(row)]]++] = static_cast<uint32_t>(row);
    }
    for (size_t i = 0; i + 1 < thread_begin_.size(); ++i) {
        merge_sort(rows.data() + thread_begin_[i], rows.data() + thread_begin_[i + 1],
                   [&](uint32_t a, uint32_t b) {
                       const int64_t start_a = hosts.value(host::start, a);
                       const int64_t start_b = hosts.value(host::start, b);
                       if (start_a != start_b) return start_a < start_b;
                       const int64_t end_a = hosts.value(host::end, a);
                       const int64_t end_b = hosts.value(host::end, b);
                       return end_a != end_b ? end_a > end_b : layer(a) < layer(b);
                   });
    }
}

void Finished::nest_hosts() {
    const Rows& hosts = tables.rows[kHost];
    const std::vector<uint32_t>& rows = order[kHost];
    parent.resize(rows.size());
    depth.resize(rows.size());
    subtree_end.resize(rows.size());
    for (size_t i = 0; i + 1 < thread_begin_.size(); ++i) {
        nest(
            thread_begin_[i], thread_begin_[i + 1],
            [&](uint32_t row) { return hosts.value(host::start, rows[row]); },
            [&](uint32_t row) { return hosts.value(host::end, rows[row]); }, parent.data(),
            depth.data(), subtree_end.data());
    }
}

void Finished::order_devices() {
    const Rows& devices = tables.rows[kDevice];
    std::vector<uint32_t>& rows = order[kDevice];
    for (size_t row = 0; row < devices.rows; ++row) {
        if (fits(devices.value(device::start, row)) && fits(devices.value(device::end, row))) {
            rows.push_back(static_cast<uint32_t>(row));
        }
    }
    merge_sort(rows.data(), rows.data() + rows.size(), [&](uint32_t a, uint32_t b) {
        // Of two at the same moment none is first because of its place in the file: what follows
        // from the order must not depend on whose buffer was written before the other's.
        for (const auto column : {device::start, device::end, device::device_id, device::stream,
                                  device::correlation}) {
            const int64_t value_a = devices.value(column, a);
            const int64_t value_b = devices.value(column, b);
            if (value_a != value_b) return value_a < value_b;
        }
        return false;
    });
}

void Finished::order_others() {
    const auto keep = [&](TableId id, size_t first, size_t second) {
        const Rows& rows = tables.rows[id];
        for (size_t row = 0; row < rows.rows; ++row) {
            if (fits(rows.value(first, row)) && fits(rows.value(second, row))) {
                order[id].push_back(static_cast<uint32_t>(row));
            }
        }
    };
    keep(kRanges, range::start, range::end);
    keep(kSyncs, sync::start, sync::end);
    keep(kMemory, memory::time, memory::time);
    keep(kCounters, counter::time, counter::time);
    order[kCollectives].resize(tables.rows[kCollectives].rows);
    std::iota(order[kCollectives].begin(), order[kCollectives].end(), 0);
}

std::vector<uint32_t> Finished::codes_of_copies() const {
    const Column<uint32_t>& column = tables.rows[kDevice].codes[device::copy];
    std::set<uint32_t> codes;
    for (size_t row = 0; column.data() != nullptr && row < column.rows(); ++row) {
        if (column.data()[row] != 0) codes.insert(column.data()[row]);
    }
    return {codes.begin(), codes.end()};
}

void Finished::find_owners() {
    const Rows& collectives = tables.rows[kCollectives];
    collective_owner.assign(collectives.rows, kNoRow);
    for (const bool by_host : {false, true}) {
        std::unordered_map<uint32_t, uint32_t> wanted;  // owner's row, the collective's row
        for (size_t row = 0; row < collectives.rows; ++row) {
            if ((collectives.tag.at(row) == collective::by_host) != by_host) continue;
            wanted.emplace(static_cast<uint32_t>(collectives.value(collective::row, row)),
                           static_cast<uint32_t>(row));
        }
        if (wanted.empty()) continue;
        const std::vector<uint32_t>& rows = order[by_host ? kHost : kDevice];
        for (uint32_t at = 0; at < rows.size(); ++at) {
            const auto found = wanted.find(rows[at]);
            if (found != wanted.end()) collective_owner[found->second] = at;
        }
    }
}

void Finished::gather_facts() {
    const Rows& hosts = tables.rows[kHost];
    const Rows& devices = tables.rows[kDevice];
    facts.host_rows = order[kHost].size();
    facts.device_rows = order[kDevice].size();
    std::unordered_set<uint32_t> steps;
    for (const uint32_t row : order[kHost]) {
        const uint8_t its = layer(row);
        ++facts.layers[its];
        if (its == step) steps.insert(hosts.codes[host::name].at(row));
        facts.has_stack = facts.has_stack || hosts.codes[host::stack].at(row) != 0;
        facts.has_shapes = facts.has_shapes || hosts.codes[host::shapes].at(row) != 0;
    }
    facts.step_names = steps.size();
    std::set<int64_t> ids;
    int64_t last = kNull;
    for (const uint32_t row : order[kDevice]) {
        int64_t id = devices.value(device::device_id, row);
        if (id == kNull) {
            ++facts.without_device;
            id = 0;
        }
        if (id != last) ids.insert(last = id);
        const int64_t start = devices.value(device::start, row);
        const int64_t end = devices.value(device::end, row);
        if (start == end) ++facts.zero_durations;
        facts.whole_us = facts.whole_us && (start + base) % 1000 == 0 && (end + base) % 1000 == 0;
    }
    for (const uint32_t row : launch) {
        if (row == kNoRow) ++facts.unmatched;
    }
    facts.devices.assign(ids.begin(), ids.end());
    const auto& threads = tables.threads.all();
    for (uint32_t number = 0; number < threads.size(); ++number) {
        const uint32_t rank = thread_rank_[number + 1];
        const auto& [pid, tid] = threads[number];
        if (thread_begin_[rank] == thread_begin_[rank + 1] || pid == kNull || tid == kNull) continue;
        facts.threads.emplace_back(pid, tid);
    }
    std::sort(facts.threads.begin(), facts.threads.end());
}

}  // namespace sightline
