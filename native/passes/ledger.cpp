#include "passes/ledger.h"

#include <algorithm>
#include <iterator>

namespace sightline {

size_t Ledger::Live::home_of(int64_t device, int64_t address) const {
    uint64_t hash = static_cast<uint64_t>(address) * 0x9E3779B97F4A7C15ULL;
    hash = (hash ^ static_cast<uint64_t>(device)) * 0xD6E8FEB86659FD93ULL;
    return static_cast<size_t>(hash ^ (hash >> 32)) & (slots_.size() - 1);
}

Ledger::Block& Ledger::Live::find(int64_t device, int64_t address) {
    size_t at = home_of(device, address);
    while (slots_[at].number >= 0 &&
           (slots_[at].address != address || slots_[at].device != device)) {
        at = (at + 1) & (slots_.size() - 1);
    }
    return slots_[at];
}

void Ledger::Live::take(Block& slot, const Block& block) {
    slot = block;
    if (++count_ * 2 <= slots_.size()) return;
    std::vector<Block> before(slots_.size() * 2);
    before.swap(slots_);
    for (const Block& one : before) {
        if (one.number >= 0) find(one.device, one.address) = one;
    }
}

void Ledger::Live::erase(Block& block) {
    const size_t mask = slots_.size() - 1;
    auto free = static_cast<size_t>(&block - slots_.data());
    // What follows without a gap moves up where its own place allows, so that it is still found.
    for (size_t at = (free + 1) & mask; slots_[at].number >= 0; at = (at + 1) & mask) {
        const size_t home = home_of(slots_[at].device, slots_[at].address);
        if (((at - home) & mask) < ((at - free) & mask)) continue;
        slots_[free] = slots_[at];
        free = at;
    }
    slots_[free].number = -1;
    --count_;
}

void Ledger::Used::add(int64_t address, int64_t bytes) {
    const int64_t end = plus(address, std::max<int64_t>(bytes, 1));
    auto after = ends_.upper_bound(address);
    if (after != ends_.begin()) {
        auto before = std::prev(after);
        if (before->second >= end) return;
        if (before->second >= address) {
            address = before->first;
            after = before;
        }
    }
    int64_t last = end;
    while (after != ends_.end() && after->first <= end) {
        last = std::max(last, after->second);
        after = ends_.erase(after);
    }
    ends_.emplace_hint(after, address, last);
}

bool Ledger::Used::has(int64_t address, int64_t bytes) const {
    const int64_t end = plus(address, std::max<int64_t>(bytes, 1));
    auto at = ends_.lower_bound(end);
    return at != ends_.begin() && std::prev(at)->second > address;
}

bool Ledger::lost_allocation_of(int64_t device, int64_t address, int64_t bytes) {
    Used& used = used_[device];
    if (used.has(address, bytes)) {
        ++lost_allocations_;
        return true;
    }
    used.add(address, bytes);  // from before the first event: it cannot be so twice
    return false;
}

Ledger::Block Ledger::open(int64_t device, int64_t address, int64_t bytes, int64_t allocated_at) {
    if (allocated_at == kNull) {
        Earlier& earlier = earlier_[device];
        ++earlier.blocks;
        earlier.bytes = plus(earlier.bytes, bytes);
    }
    if (keeps_blocks_) {
        devices_.append(device);
        addresses_.append(address);
        bytes_.append(bytes);
        allocated_at_.append(allocated_at);
        requested_at_.push_back(kNull);
        freed_at_.push_back(kNull);
    }
    return {device, address, bytes, blocks_++, false};
}

Batch Ledger::add(const Keys& events) {
    const auto rows = static_cast<size_t>(events.rows);
    std::vector<int64_t> allocated(rows), active(rows), reserved(rows);
    for (size_t row = 0; row < rows; ++row, ++rows_) {
        const int64_t device = events.columns[0][row], address = events.columns[2][row];
        const int64_t bytes = events.columns[3][row];
        Sums& sums = sums_[device];
        switch (static_cast<Action>(events.columns[1][row])) {
            case Action::allocate: {
                Block& block = live_.find(device, address);
                const bool is_new = block.number < 0;
                if (!is_new) {
                    ++lost_frees_;
                    sums.active = minus(sums.active, block.bytes);
                    if (!block.is_requested) sums.allocated = minus(sums.allocated, block.bytes);
                }
                used_[device].add(address, bytes);
                const Block opened = open(device, address, bytes, rows_);
                if (is_new) {
                    live_.take(block, opened);
                } else {
                    block = opened;
                }
                sums.allocated = plus(sums.allocated, bytes);
                sums.active = plus(sums.active, bytes);
                break;
            }
            case Action::request_free: {
                Block& block = live_.find(device, address);
                const bool is_new = block.number < 0;
                if (is_new && lost_allocation_of(device, address, bytes)) {
                    asked_lost_.emplace(device, address);
                    break;
                }
                Block asked = is_new ? open(device, address, bytes, kNull) : block;
                if (asked.is_requested) break;
                asked.is_requested = true;
                if (keeps_blocks_) requested_at_[static_cast<size_t>(asked.number)] = rows_;
                sums.allocated = minus(sums.allocated, asked.bytes);
                if (is_new) {
                    live_.take(block, asked);
                } else {
                    block = asked;
                }
                break;
            }
            case Action::free: {
                Block& block = live_.find(device, address);
                const bool is_new = block.number < 0;
                if (is_new && (asked_lost_.erase({device, address}) != 0 ||
                               lost_allocation_of(device, address, bytes))) {
                    break;
                }
                const Block freed = is_new ? open(device, address, bytes, kNull) : block;
                if (keeps_blocks_) freed_at_[static_cast<size_t>(freed.number)] = rows_;
                if (!freed.is_requested) sums.allocated = minus(sums.allocated, freed.bytes);
                sums.active = minus(sums.active, freed.bytes);
                if (!is_new) live_.erase(block);
                break;
            }
            case Action::reserve:
                used_[device].add(address, bytes);
                sums.reserved = plus(sums.reserved, bytes);
                break;
            case Action::release: sums.reserved = minus(sums.reserved, bytes); break;
            default: break;
        }
        allocated[row] = sums.allocated;
        active[row] = sums.active;
        reserved[row] = sums.reserved;
    }
    Batch batch;
    batch.rows = events.rows;
    batch.columns = {numbers_column("allocated", std::move(allocated)),
                     numbers_column("active", std::move(active)),
                     numbers_column("reserved", std::move(reserved))};
    return batch;
}

Batch Ledger::earlier() const {
    std::vector<int64_t> device, blocks, bytes;
    for (const auto& [number, sums] : earlier_) {
        device.push_back(number);
        blocks.push_back(sums.blocks);
        bytes.push_back(sums.bytes);
    }
    Batch batch;
    batch.rows = static_cast<int64_t>(device.size());
    batch.columns = {numbers_column("device_id", std::move(device)),
                     numbers_column("blocks", std::move(blocks)),
                     numbers_column("bytes", std::move(bytes))};
    return batch;
}

Batch Ledger::blocks() const {
    Batch batch;
    batch.rows = static_cast<int64_t>(freed_at_.size());
    batch.columns = {numbers_column("device_id", devices_.values<int64_t>()),
                     numbers_column("address", addresses_.values<int64_t>()),
                     numbers_column("bytes", bytes_.values<int64_t>()),
                     numbers_column("allocated_row", allocated_at_.values<int64_t>()),
                     numbers_column("requested_row", requested_at_),
                     numbers_column("freed_row", freed_at_)};
    return batch;
}

}  // namespace sightline
