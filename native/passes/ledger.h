// Follows the blocks of allocators through their events.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "columns/arrow.h"
#include "columns/keys.h"
#include "columns/packed.h"

namespace sightline {

// What an event does, as the column `action` says it.
enum class Action : int64_t { allocate, request_free, free, reserve, release, other };

// Events of several devices, each device's in order.
class Ledger {
public:
    Ledger() = default;
    Ledger(const Ledger&) = delete;
    Ledger& operator=(const Ledger&) = delete;

    // Columns device, action, address, bytes. Returns `allocated`, `active` and `reserved`: the
    // device's sums after each event, counted from 0 at its first one. A block is allocated until
    // its free is requested, and active until it is freed; where no request was recorded, allocated
    // until it is freed.
    Batch add(const Keys& events);

    // All blocks so far, in the order of their first event: device, address, bytes, and the rows of
    // the events that allocated it, asked to free it and freed it, null where there are none.
    Batch blocks() const;

    // Blocks that were allocated again before they were freed: their frees are not recorded.
    int64_t lost_frees() const { return lost_frees_; }

private:
    struct Place {
        int64_t device, address;
        bool operator==(const Place& other) const {
            return device == other.device && address == other.address;
        }
    };
    struct Hash {
        size_t operator()(const Place& place) const {
            uint64_t hash = static_cast<uint64_t>(place.address) * 0x9E3779B97F4A7C15ULL;
            hash = (hash ^ static_cast<uint64_t>(place.device)) * 0xD6E8FEB86659FD93ULL;
            return static_cast<size_t>(hash ^ (hash >> 32));
        }
    };
    struct Sums {
        int64_t allocated = 0, active = 0, reserved = 0;
    };
    struct Block {
        int64_t number = 0, bytes = 0;
        bool is_requested = false;
    };

    int64_t open(const Place& place, int64_t bytes, int64_t allocated_at);

    int64_t rows_ = 0, lost_frees_ = 0;
    std::unordered_map<int64_t, Sums> sums_;
    std::unordered_map<Place, Block, Hash> live_;
    Packed devices_, addresses_, bytes_, allocated_at_;
    std::vector<int64_t> requested_at_, freed_at_;
};

}  // namespace sightline
