// Follows the blocks of allocators through their events.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
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
    // Without blocks, memory does not grow with the events: for who asks only for sums.
    explicit Ledger(bool keeps_blocks) : keeps_blocks_(keeps_blocks) {}
    Ledger(const Ledger&) = delete;
    Ledger& operator=(const Ledger&) = delete;

    // Columns device, action, address, bytes. Returns `allocated`, `active` and `reserved`: the
    // device's sums after each event, counted from 0 at its first one. A block is allocated until
    // its free is requested, and active until it is freed; where no request was recorded, allocated
    // until it is freed.
    Batch add(const Keys& events);

    // Where blocks are kept: all so far, in the order of their first event: device, address, bytes, and the rows of
    // the events that allocated it, asked to free it and freed it, null where there are none.
    Batch blocks() const;

    // Of blocks that were freed, or asked to be, and that no event allocated: device, blocks, bytes.
    Batch earlier() const;

    // Blocks that were allocated again before they were freed: their frees are not recorded.
    int64_t lost_frees() const { return lost_frees_; }

    // Blocks that were freed where the events before have put others, or a segment: what allocated
    // them is not recorded, and they were not there before the first event. No sum has them.
    int64_t lost_allocations() const { return lost_allocations_; }

private:
    struct Sums {
        int64_t allocated = 0, active = 0, reserved = 0;
    };
    struct Earlier {
        int64_t blocks = 0, bytes = 0;
    };
    struct Block {
        int64_t device = 0, address = 0, bytes = 0;
        int64_t number = -1;  // among all blocks; -1 where the slot is free
        bool is_requested = false;
    };

    // The blocks that live, by device and address: a table with open addressing.
    class Live {
    public:
        // The block at a place, or a free slot for it that `take` has to be called for.
        Block& find(int64_t device, int64_t address);
        // Puts a new block into the slot that `find` has just given.
        void take(Block& slot, const Block& block);
        void erase(Block& block);

    private:
        size_t home_of(int64_t device, int64_t address) const;

        std::vector<Block> slots_ = std::vector<Block>(1024);
        size_t count_ = 0;
    };

    // Addresses that a device's events have used so far, as ranges without gaps between them.
    class Used {
    public:
        void add(int64_t address, int64_t bytes);
        bool has(int64_t address, int64_t bytes) const;

    private:
        std::map<int64_t, int64_t> ends_;  // of each range, by its start
    };

    // Whether a free is of no block that is known, nor can be one from before the first event.
    bool lost_allocation_of(int64_t device, int64_t address, int64_t bytes);

    Block open(int64_t device, int64_t address, int64_t bytes, int64_t allocated_at);

    bool keeps_blocks_;
    int64_t rows_ = 0, blocks_ = 0, lost_frees_ = 0, lost_allocations_ = 0;
    std::unordered_map<int64_t, Sums> sums_;
    std::map<int64_t, Earlier> earlier_;
    Live live_;
    std::unordered_map<int64_t, Used> used_;
    std::set<std::pair<int64_t, int64_t>> asked_lost_;  // of lost allocations, until they are freed
    Packed devices_, addresses_, bytes_, allocated_at_;
    std::vector<int64_t> requested_at_, freed_at_;
};

}  // namespace sightline
