// The events of an Nsight Systems report as columns.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "columns/arrow.h"
#include "columns/dictionary.h"
#include "columns/packed.h"
#include "nsysrep/blocks.h"
#include "nsysrep/plan.h"

namespace sightline {

class ReportEvents {
public:
    ReportEvents(const std::string& path, uint64_t start, uint64_t end, uint64_t most_events,
                 const std::vector<TablePlan>& plans);

    // Reads some blocks. False when there is nothing left to read.
    bool read(size_t blocks);

    uint64_t events() const { return events_; }
    uint64_t position() const { return blocks_.position(); }
    uint64_t damaged_blocks() const { return damaged_blocks_; }
    uint64_t damaged_events() const { return damaged_events_; }
    bool cut() const { return cut_; }
    bool too_many() const { return too_many_; }
    // How many events of which type and payload no plan takes.
    const std::map<std::pair<uint32_t, uint32_t>, uint64_t>& unknown() const { return unknown_; }

    size_t rows(const std::string& table) const;

    struct Columns {
        Batch varying;  // named by their place among the wanted ones
        std::vector<std::pair<size_t, int64_t>> constants;
    };
    // Columns of a table; "real" ones are float64, texts and bytes numbers: row + 1 in texts().
    Columns columns(const std::string& table, const std::vector<std::string>& names) const;

    // The same, once: the table's columns are given up. Those in `narrow` come in integers no wider
    // than they need.
    Columns take(const std::string& table, const std::vector<std::string>& names,
                 const std::vector<std::string>& narrow);

    const Dictionary& texts() const { return texts_; }

private:
    static constexpr int kNone = -1;

    enum class Kind : uint8_t { number, real, text, bytes, message, frames };
    struct Action {
        Kind kind = Kind::number;
        int slot = kNone;  // of the value; of a message, whether it is there
        int message = kNone;
    };
    struct Message {
        std::vector<int> actions;  // by field number
    };
    struct Place {
        int slot = kNone;  // or the chain's number, or the depth in it
        int64_t missing = 0;
    };
    struct Table {
        std::vector<std::string> names;
        std::vector<bool> real;
        std::vector<Place> places;
        std::vector<Packed> columns;
        size_t rows = 0;
        bool taken = false;  // the columns are
        int64_t chains = 0;  // of a table of chains: how many
    };
    struct Rule {
        int table = kNone;
        int when = kNone;
        std::vector<int64_t> values;
        int chain = kNone;  // the table of its frames
    };
    // How one kind of payload is read.
    struct Payload {
        std::vector<Message> messages;  // the first is the payload itself
        std::vector<Action> actions;
        size_t slots = 0;
        std::vector<Rule> rules;
        int frame = kNone;              // the message that repeats
        std::vector<int> frame_slots;   // what it fills
    };

    int table_of(const std::string& name);
    static size_t place_of(const Table& table, const std::string& name);
    static void add_column(Columns& out, const Table& from, size_t place, bool narrow);
    int add_action(Payload& payload, int message, uint32_t field, Kind kind);
    void add_plan(const TablePlan& plan);
    void add_columns(Payload& payload, Table& table, const std::vector<ColumnPlan>& columns,
                     int message);

    bool read_block(const uint8_t* data, size_t size);
    bool read_event(const uint8_t* data, size_t size);
    bool read_message(const Payload& payload, int message, const uint8_t* data, size_t size);
    void append(const Payload& payload, const Rule& rule);
    void append_row(Table& table, int64_t chain, int64_t depth);

    Blocks blocks_;
    uint64_t most_events_, most_rows_;
    std::vector<uint8_t> block_;
    std::vector<Payload> payloads_;
    std::vector<int> payload_by_field_;
    std::vector<Table> tables_;
    std::unordered_map<std::string, int> table_by_name_;
    Dictionary texts_;

    std::vector<int64_t> slots_;         // of the event that is read
    std::vector<int64_t> frames_;        // slots of its frames, one after another
    uint64_t events_ = 0, rows_ = 0, damaged_blocks_ = 0, damaged_events_ = 0;
    bool cut_ = false, too_many_ = false, done_ = false;
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> unknown_;
};

}  // namespace sightline
