#include "ctf/plan.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace sightline::ctf {

namespace {

constexpr int32_t kMostNesting = 64;

[[noreturn]] void refuse(const char* why) { throw std::invalid_argument(why); }

// Little-endian int64 one behind another: each list has its length before it.
class Words {
public:
    Words(const uint8_t* data, size_t size) : data_(data), left_(size / 8) {
        if (size % 8 != 0) refuse("the plan is cut");
    }
    int64_t next() {
        if (left_ == 0) refuse("the plan is cut");
        uint64_t word = 0;
        for (int i = 7; i >= 0; --i) word = word << 8 | data_[i];
        data_ += 8;
        --left_;
        return static_cast<int64_t>(word);
    }
    int32_t small() {
        const int64_t word = next();
        if (word < INT32_MIN || word > INT32_MAX) refuse("a number of the plan is too large");
        return static_cast<int32_t>(word);
    }
    uint8_t flag() { return next() != 0; }
    size_t length() {
        const int64_t count = next();
        if (count < 0 || static_cast<uint64_t>(count) > left_) refuse("the plan is cut");
        return static_cast<size_t>(count);
    }
    bool is_empty() const { return left_ == 0; }

private:
    const uint8_t* data_;
    size_t left_;
};

class Checker {
public:
    explicit Checker(const Plan& plan) : plan_(plan) {}

    void check() const {
        const size_t tables = plan_.is_root.size();
        for (const ColumnPlan& column : plan_.columns) {
            if (!within(column.table, tables) || column.kind > Kind::blob) refuse("no such column");
        }
        check_tables(plan_.header_table, plan_.header_table, plan_.header_tables);
        check_program(plan_.packet_header, plan_.header_table);
        for (const StreamClass& stream : plan_.stream_classes) {
            check_tables(stream.table, stream.first_table, stream.tables);
            check_program(stream.context, stream.table);
            check_program(stream.header, kNone);
        }
        for (const EventClass& event : plan_.event_classes) {
            if (!within(event.stream_class, plan_.stream_classes.size())) refuse("no such stream");
            check_tables(event.table, event.first_table, event.tables);
            check_program(event.program, event.table);
        }
    }

private:
    static bool within(int64_t place, size_t size) {
        return place >= 0 && static_cast<uint64_t>(place) < size;
    }
    void check_tables(int32_t table, int32_t first, int32_t count) const {
        const auto tables = static_cast<int64_t>(plan_.is_root.size());
        if (first < 0 || count < 1 || int64_t{first} + count > tables || table < first ||
            table >= first + count) {
            refuse("no such table");
        }
    }
    void check_program(const Program& program, int32_t table) const {
        check_code(program.start, int64_t{program.start} + program.size, table, 0);
    }
    void check_code(int64_t at, int64_t end, int32_t table, int32_t depth) const {
        if (depth > kMostNesting || at < 0 || end < at ||
            end > static_cast<int64_t>(plan_.code.size())) {
            refuse("an instruction leads nowhere");
        }
        while (at < end) {
            const Instruction& one = plan_.code[static_cast<size_t>(at)];
            check_one(one, table);
            int64_t next = at + 1 + one.body;
            if (one.body < 0 || next > end) refuse("an instruction leads nowhere");
            if (one.op == Op::repeat) check_code(at + 1, next, one.table, depth + 1);
            if (one.op == Op::select) check_options(one, at + 1, next, table, depth);
            at = next;
        }
    }
    void check_options(const Instruction& one, int64_t start, int64_t end, int32_t table,
                       int32_t depth) const {
        if (one.first < 0 || one.count < 0 ||
            int64_t{one.first} + one.count > static_cast<int64_t>(plan_.options.size())) {
            refuse("no such option");
        }
        int64_t behind = start;  // options lie one behind another
        for (int64_t i = one.first; i < one.first + one.count; ++i) {
            const Option& option = plan_.options[static_cast<size_t>(i)];
            const int64_t stop = int64_t{option.start} + option.size;
            if (option.start < behind || stop > end || option.size < 0) refuse("no such option");
            behind = stop;
            if (option.ranges < 0 || option.count < 0 ||
                int64_t{option.ranges} + option.count > static_cast<int64_t>(plan_.ranges.size())) {
                refuse("no such range");
            }
            check_code(option.start, stop, table, depth + 1);
        }
    }
    void check_one(const Instruction& one, int32_t table) const {
        if (one.op > Op::select) refuse("no such instruction");
        if (one.column != kNone) {
            if (!within(one.column, plan_.columns.size()) ||
                plan_.columns[static_cast<size_t>(one.column)].table != table) {
                refuse("no such column");
            }
            check_kind(one, plan_.columns[static_cast<size_t>(one.column)].kind);
        }
        if (one.store != kNone && !within(one.store, static_cast<size_t>(plan_.registers))) {
            refuse("no such register");
        }
        if (one.from != kNone && !within(one.from, static_cast<size_t>(plan_.registers))) {
            refuse("no such register");
        }
        const int32_t alignment = one.op == Op::align ? one.size : one.alignment;
        if (alignment < 1 || (alignment & (alignment - 1)) != 0) refuse("no such alignment");
        if (one.op == Op::integer && (one.size < 1 || one.size > 64)) refuse("no such size");
        if (one.op == Op::real && one.size != 16 && one.size != 32 && one.size != 64) {
            refuse("no such size");
        }
        const bool counts = one.op == Op::repeat || one.op == Op::text || one.op == Op::blob;
        if (counts && one.from == kNone && one.count < 0) refuse("no such length");
        if (one.op == Op::repeat && !within(one.table, plan_.is_root.size())) refuse("no such table");
        if (one.op == Op::select && one.from == kNone) refuse("a select without a selector");
    }
    static void check_kind(const Instruction& one, Kind kind) {
        const bool is_bytes = kind == Kind::text || kind == Kind::blob;
        const bool is_real = kind == Kind::f32 || kind == Kind::f64;
        const bool wants_bytes = one.op == Op::string || one.op == Op::text || one.op == Op::blob;
        if (is_bytes != wants_bytes || is_real != (one.op == Op::real)) refuse("a column of two kinds");
    }

    const Plan& plan_;
};

Program read_program(Words& words) {
    Program program;
    program.start = words.small();
    program.size = words.small();
    return program;
}

Instruction read_instruction(Words& words) {
    Instruction one;
    const int64_t op = words.next();
    if (op < 0 || op > static_cast<int64_t>(Op::select)) refuse("no such instruction");
    one.op = static_cast<Op>(op);
    const int64_t flags = words.next();
    one.is_signed = flags & 1;
    one.is_big = flags >> 1 & 1;
    one.is_reversed = flags >> 2 & 1;
    one.sets_clock = flags >> 3 & 1;
    one.is_uuid = flags >> 4 & 1;
    one.may_miss = flags >> 5 & 1;
    one.is_end = flags >> 6 & 1;
    for (int32_t* field : {&one.size, &one.alignment, &one.column, &one.store, &one.from, &one.table,
                           &one.body, &one.first}) {
        *field = words.small();
    }
    one.count = words.next();
    one.is_plain = one.op == Op::integer && one.is_big == 0 && one.is_reversed == 0 &&
                   (one.size == 8 || one.size == 16 || one.size == 32 || one.size == 64);
    return one;
}

}  // namespace

Plan read_plan(const uint8_t* data, size_t size) {
    Words words(data, size);
    Plan plan;
    plan.registers = words.small();
    if (plan.registers < kFirstFree || plan.registers > (1 << 20)) refuse("no such register");
    plan.has_magic = words.flag();
    plan.has_uuid = words.flag();
    for (uint8_t& byte : plan.uuid) byte = static_cast<uint8_t>(words.next());
    for (size_t i = words.length(); i > 0; --i) plan.code.push_back(read_instruction(words));
    for (size_t i = words.length(); i > 0; --i) {
        Range range;
        range.lowest = words.next();
        range.highest = words.next();
        range.is_signed = words.flag();
        plan.ranges.push_back(range);
    }
    for (size_t i = words.length(); i > 0; --i) {
        Option option;
        for (int32_t* field : {&option.start, &option.size, &option.ranges, &option.count}) {
            *field = words.small();
        }
        plan.options.push_back(option);
    }
    for (size_t i = words.length(); i > 0; --i) plan.is_root.push_back(words.flag());
    for (size_t i = words.length(); i > 0; --i) {
        ColumnPlan column;
        column.table = words.small();
        const int64_t kind = words.next();
        if (kind < 0 || kind > static_cast<int64_t>(Kind::blob)) refuse("no such column");
        column.kind = static_cast<Kind>(kind);
        plan.columns.push_back(column);
    }
    plan.packet_header = read_program(words);
    plan.header_table = words.small();
    plan.header_tables = words.small();
    for (size_t i = words.length(); i > 0; --i) {
        StreamClass stream;
        stream.id = static_cast<uint64_t>(words.next());
        stream.context = read_program(words);
        stream.header = read_program(words);
        for (int32_t* field : {&stream.table, &stream.first_table, &stream.tables}) {
            *field = words.small();
        }
        plan.stream_classes.push_back(stream);
    }
    for (size_t i = words.length(); i > 0; --i) {
        EventClass event;
        event.stream_class = words.small();
        event.id = static_cast<uint64_t>(words.next());
        event.program = read_program(words);
        for (int32_t* field : {&event.table, &event.first_table, &event.tables}) {
            *field = words.small();
        }
        plan.event_classes.push_back(event);
    }
    if (!words.is_empty()) refuse("the plan is too long");
    Checker(plan).check();
    return plan;
}

}  // namespace sightline::ctf
