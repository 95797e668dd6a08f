#include "passes/ledger.h"

namespace sightline {

int64_t Ledger::open(const Place& place, int64_t bytes, int64_t allocated_at) {
    devices_.append(place.device);
    addresses_.append(place.address);
    bytes_.append(bytes);
    allocated_at_.append(allocated_at);
    requested_at_.push_back(kNull);
    freed_at_.push_back(kNull);
    return static_cast<int64_t>(freed_at_.size()) - 1;
}

Batch Ledger::add(const Keys& events) {
    const auto rows = static_cast<size_t>(events.rows);
    std::vector<int64_t> allocated(rows), active(rows), reserved(rows);
    for (size_t row = 0; row < rows; ++row, ++rows_) {
        const Place place{events.columns[0][row], events.columns[2][row]};
        const int64_t bytes = events.columns[3][row];
        Sums& sums = sums_[place.device];
        switch (static_cast<Action>(events.columns[1][row])) {
            case Action::allocate: {
                const auto [at, is_new] = live_.try_emplace(place);
                if (!is_new) {
                    ++lost_frees_;
                    sums.active = minus(sums.active, at->second.bytes);
                    if (!at->second.is_requested) {
                        sums.allocated = minus(sums.allocated, at->second.bytes);
                    }
                }
                at->second = {open(place, bytes, rows_), bytes, false};
                sums.allocated = plus(sums.allocated, bytes);
                sums.active = plus(sums.active, bytes);
                break;
            }
            case Action::request_free: {
                const auto [at, is_new] = live_.try_emplace(place);
                if (is_new) at->second = {open(place, bytes, kNull), bytes, false};
                Block& block = at->second;
                if (block.is_requested) break;
                block.is_requested = true;
                requested_at_[static_cast<size_t>(block.number)] = rows_;
                sums.allocated = minus(sums.allocated, block.bytes);
                break;
            }
            case Action::free: {
                auto at = live_.find(place);
                if (at == live_.end()) {
                    at = live_.try_emplace(place, Block{open(place, bytes, kNull), bytes, false})
                             .first;
                }
                const Block& block = at->second;
                freed_at_[static_cast<size_t>(block.number)] = rows_;
                if (!block.is_requested) sums.allocated = minus(sums.allocated, block.bytes);
                sums.active = minus(sums.active, block.bytes);
                live_.erase(at);
                break;
            }
            case Action::reserve: sums.reserved = plus(sums.reserved, bytes); break;
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
