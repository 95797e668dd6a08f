// The packets and events of the streams of a CTF trace, as columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "columns/arrow.h"
#include "ctf/columns.h"
#include "ctf/plan.h"
#include "ctf/window.h"

namespace sightline::ctf {

// What is wrong with a packet: it, or the rest of it, is not read.
enum class Damage : uint8_t {
    none,
    cut,            // ends before what it must hold
    magic,          // does not begin as packets do
    stream_class,   // of a stream that the metadata does not know
    event_class,    // has an event that the metadata does not know
    option,         // a selector chooses nothing
    size,           // its size makes no sense
    too_many,       // claims more elements than there are bits
    byte_order,     // bit fields of two byte orders share a byte
};

class Streams {
public:
    // Throws std::invalid_argument where the plan is none.
    Streams(const uint8_t* plan, size_t size, std::vector<std::string> paths);

    // Reads until about so many events or bytes are waiting to be taken. False at the end. Throws
    // std::system_error where a file cannot be read.
    bool read(size_t most_events, size_t most_bytes);

    size_t tables() const { return tables_.size(); }
    size_t rows(size_t table) const { return tables_.at(table).rows; }

    // The rows of a table since the last time. Columns are named by their number; those of events
    // have `time` (cycles of the stream's clock), `packet` and `event` (both count up) too, those of
    // packets' contexts `packet`.
    Batch take(size_t table);

    // All packets since the last time: where they are and what they say of themselves.
    Batch take_packets();

    uint64_t events() const { return events_; }

    struct Problem {
        Damage damage;
        size_t file;
        uint64_t byte;  // of the file
    };
    const std::vector<Problem>& problems() const { return problems_; }
    uint64_t damaged_packets() const { return damaged_; }
    uint64_t foreign_packets() const { return foreign_; }  // with another UUID than the trace's
    uint64_t backward_events() const { return backward_; }  // with an earlier time than the last

private:
    struct Table {
        std::vector<size_t> columns;
        size_t rows = 0, kept = 0;  // kept: of events that are whole
        bool is_ragged = false;     // a column may get no value in a row
        std::vector<uint64_t> time, packet, event;
    };

    bool open_next_file();
    bool begin_packet();
    bool read_packet_head();
    bool check_sizes(uint64_t left);
    void end_packet(Damage damage);
    void read_events(size_t most_events, size_t most_bytes);
    bool read_event();
    size_t find_event(uint64_t id) const;

    bool run(const Program& program, int32_t table);
    bool run_code(int32_t at, int32_t end, int32_t table);
    bool read_plain_integer(const Instruction& one, uint64_t& value);
    bool read_integer(const Instruction& one, uint64_t& value);
    bool read_variable(const Instruction& one, uint64_t& value);
    bool read_real(const Instruction& one);
    bool read_bytes(const Instruction& one);
    bool repeat(const Instruction& one, int32_t at);
    bool select(const Instruction& one, int32_t table);
    bool reach(uint64_t bits);
    bool refill(uint64_t wanted);
    bool align(uint64_t to);
    void note(const Instruction& one, uint64_t value);
    bool fail(Damage damage);
    void end_row(int32_t table);
    void roll_back(int32_t first, int32_t count);
    void keep(int32_t first, int32_t count);
    bool has(Register place) const { return is_set_[static_cast<size_t>(place)] != 0; }
    uint64_t number(Register place) const { return registers_[static_cast<size_t>(place)]; }

    Plan plan_;
    std::vector<std::string> paths_;
    std::vector<GrowingColumn> columns_;
    std::vector<Table> tables_;
    std::vector<std::unordered_map<uint64_t, size_t>> event_by_id_;  // of each stream class
    std::vector<std::vector<size_t>> event_by_low_id_;
    std::vector<size_t> only_event_;
    std::unordered_map<uint64_t, size_t> stream_by_id_;

    size_t file_ = 0;  // one more than that which is open
    Window window_;
    uint64_t packet_start_ = 0;   // byte of the file
    uint64_t packet_bytes_ = 0, content_bits_ = 0;
    uint64_t at_ = 0, end_ = 0;   // bits of the packet: where we are, and what may be read
    const uint8_t* bytes_ = nullptr;  // the packet's, from bit `seen_from_` to `seen_to_`
    uint64_t seen_from_ = 0, seen_to_ = 0;
    uint64_t ready_ = 0;  // the bit up to which all is in the window, and may be read
    bool in_packet_ = false, is_cut_ = false;
    size_t stream_ = 0;
    uint64_t clock_ = 0;
    int last_big_ = -1;  // byte order of the bit field before
    uint64_t elements_ = 0;
    Damage damage_ = Damage::none;
    std::string long_text_;

    std::vector<uint64_t> registers_;
    std::vector<uint8_t> is_set_;
    uint64_t packets_ = 0, events_ = 0, packet_events_ = 0, damaged_ = 0, foreign_ = 0;
    uint64_t backward_ = 0;
    size_t waiting_events_ = 0, waiting_bytes_ = 0;
    std::vector<Problem> problems_;
    std::vector<std::vector<uint64_t>> packet_rows_;  // by column
    std::vector<std::vector<size_t>> packet_nulls_;
};

}  // namespace sightline::ctf
