// Orders, nests and joins the rows of a whole trace: launches, syncs, forward ops.
#pragma once

#include <array>
#include <unordered_set>
#include <vector>

#include "columns/order.h"
#include "kineto/tables.h"

namespace sightline {

// From an API call's correlation number to its row in preorder; of several calls the first.
class Calls {
public:
    struct Call {
        int64_t correlation = kNull;
        uint32_t row = kNoRow;
        uint32_t thread = 0;
        bool several_processes = false;
        bool used = false;
    };
    void reserve(size_t calls);
    Call& at(int64_t correlation);          // made if it is not there
    Call* find(int64_t correlation);        // null if it is not there
    void clear() { slots_ = {}; }

private:
    std::vector<Call> slots_;
};

struct Facts {
    size_t host_rows = 0, device_rows = 0;
    size_t without_device = 0, unmatched = 0, ambiguous = 0, zero_durations = 0;
    bool whole_us = true;
    bool has_stack = false, has_shapes = false;
    std::array<size_t, 8> layers{};
    size_t step_names = 0;
    std::vector<int64_t> devices;
    std::vector<std::pair<int64_t, int64_t>> threads;
};

class Finished {
public:
    Finished(Tables& tables, int64_t base, const std::vector<uint32_t>& annotation_steps,
             const std::vector<uint32_t>& op_steps);

    Tables& tables;
    const int64_t base;  // what is added to every time

    std::vector<uint32_t> order[kTables];  // rows that count, in the table's order
    std::vector<uint32_t> parent, depth, subtree_end;  // of host rows in order
    std::vector<uint32_t> forward;                     // likewise; empty where there is none
    std::vector<uint32_t> launch;                      // of device rows in order
    std::vector<uint32_t> sync_call;                   // of sync rows in order
    std::vector<uint32_t> collective_owner;            // of collective rows: row in its order
    Facts facts;

    uint8_t layer(size_t row) const;  // with steps told apart from annotations and ops
    std::vector<uint32_t> codes_of_copies() const;

private:
    bool fits(int64_t time) const;
    void order_hosts();
    void order_devices();
    void order_others();
    void nest_hosts();
    void find_calls();
    void find_launches();
    void by_arrow();
    void find_syncs();
    void find_forward();
    void find_owners();
    void gather_facts();
    uint32_t first_at(uint32_t thread, int64_t time, uint8_t lowest, uint8_t highest) const;

    std::unordered_set<uint32_t> annotation_steps_, op_steps_;
    std::vector<uint32_t> thread_rank_;   // of each thread number
    std::vector<uint32_t> thread_begin_;  // of each rank, in the host rows' order
    Calls calls_;
};

}  // namespace sightline
