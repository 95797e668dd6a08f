// How the packets and events of a CTF trace are read: instructions that formats/system/ctf/plan.py makes
// of the trace's metadata.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sightline::ctf {

enum class Op : uint8_t {
    integer,   // `size` bits
    real,      // `size` bits: 16, 32 or 64
    variable,  // an integer of 7 bits a byte (LEB128)
    string,    // up to its NUL
    text,      // `count` bytes, or as many as `from` says; ends at the first NUL
    blob,      // the same, whole
    align,     // to `size` bits
    repeat,    // the next `body` instructions are one row of `table` each, `count` or `from` times
    select,    // one of `count` options from `first` on, by the range that the number in `from` is in
};

constexpr int32_t kNone = -1;

// What an instruction's number stands for; the numbers are places in the registers, too.
enum Register : int32_t {
    kMagic,
    kStreamClass,
    kStream,
    kTotalBits,
    kContentBits,
    kBegin,
    kEnd,
    kDiscarded,
    kSequence,
    kEventClass,
    kFirstFree,
};

struct Instruction {
    Op op = Op::align;
    uint8_t is_signed = 0, is_big = 0, is_reversed = 0;
    uint8_t sets_clock = 0;  // its number is the time, or the low bits of it
    uint8_t is_uuid = 0;     // must be the trace's UUID
    uint8_t may_miss = 0;    // a select without a fitting option is nothing
    uint8_t is_end = 0;      // a packet's last time: no event's
    uint8_t is_plain = 0;    // an integer of 1, 2, 4 or 8 bytes, little-endian
    int32_t size = 0, alignment = 1;
    int32_t column = kNone;  // where its value goes: the number, the count, the option
    int32_t store = kNone;   // the register that its number goes to
    int32_t from = kNone;    // the register of a length or selector
    int32_t table = kNone, body = 0, first = 0;
    int64_t count = 0;
};

// Numbers from lowest to highest, both included, choose an option of a select.
struct Range {
    int64_t lowest = 0, highest = 0;
    bool is_signed = false;
};

struct Option {
    int32_t start = 0, size = 0;    // its instructions
    int32_t ranges = 0, count = 0;  // what chooses it
};

// Instructions one behind another.
struct Program {
    int32_t start = 0, size = 0;
};

struct EventClass {
    int32_t stream_class = 0;  // its place among the stream classes
    uint64_t id = 0;
    int32_t table = 0;
    Program program;
    int32_t first_table = 0, tables = 0;  // its own, and those of what repeats in it
};

struct StreamClass {
    uint64_t id = 0;
    Program context, header;
    int32_t table = 0;  // of its packets' contexts
    int32_t first_table = 0, tables = 0;
};

// Widths in bytes, and what they hold.
enum class Kind : uint8_t { u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, text, blob };

struct ColumnPlan {
    int32_t table = 0;
    Kind kind = Kind::u8;
};

struct Plan {
    std::vector<Instruction> code;
    std::vector<Range> ranges;
    std::vector<Option> options;
    std::vector<ColumnPlan> columns;
    std::vector<uint8_t> is_root;  // of each table: an event's or a packet's, not what repeats in it
    Program packet_header;
    int32_t header_table = 0;
    int32_t header_tables = 1;
    std::vector<StreamClass> stream_classes;
    std::vector<EventClass> event_classes;
    int32_t registers = kFirstFree;
    bool has_magic = false;
    bool has_uuid = false;
    std::array<uint8_t, 16> uuid{};
};

// Reads a plan from the bytes that plan.py writes. Throws std::invalid_argument where they are none,
// or point anywhere that is not there.
Plan read_plan(const uint8_t* data, size_t size);

}  // namespace sightline::ctf
