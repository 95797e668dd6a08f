#include "unwind/unwinder.h"

#include <cstring>

#include "unwind/bytes.h"

namespace sightline {

namespace {

constexpr size_t kMostFrames = 1000, kMostRemembered = 100000;
// perf's order (arch/x86/include/uapi/asm/perf_regs.h) as numbers of DWARF.
constexpr int kSampled[] = {0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15};
// What a function leaves as it was, unless told otherwise: bx, bp, r12 to r15.
constexpr uint32_t kKept = 1u << 3 | 1u << 6 | 0xfu << 12;

}  // namespace

// The registers of one frame, and the copy of the stack.
struct Unwinder::Frame {
    uint64_t values[kRegisters] = {};
    uint32_t known = 0;
    uint64_t stack_at = 0;
    std::string_view stack;
    bool has_ended = false, is_cut = false, is_return = false;

    bool has(int number) const { return number >= 0 && number < kRegisters && known >> number & 1; }
    void set(int number, uint64_t value) { values[number] = value; known |= 1u << number; }

    bool read(uint64_t address, uint64_t& value) {
        if (address < stack_at) return false;
        if (address - stack_at > stack.size() || stack.size() - (address - stack_at) < 8) {
            is_cut = true;
            return false;
        }
        std::memcpy(&value, stack.data() + (address - stack_at), 8);
        return true;
    }

    bool pop(uint64_t& value) {
        if (!read(values[kStackPointer], value)) return false;
        values[kStackPointer] += 8;
        return true;
    }
};

namespace {

// The DWARF operations that rules are made of: in procedure linkage tables, in signal frames and where
// a function aligns its stack.
template <class Frame>
bool evaluate(Frame& frame, std::string_view expression, std::optional<uint64_t> first, uint64_t& result) {
    std::vector<uint64_t> stack;
    if (first) stack.push_back(*first);
    DwarfBytes bytes(expression, 0);
    const auto pop = [&stack] {
        const uint64_t value = stack.empty() ? 0 : stack.back();
        if (!stack.empty()) stack.pop_back();
        return value;
    };
    while (!bytes.at_end() && stack.size() < 64) {
        const uint8_t code = bytes.read<uint8_t>();
        if (code >= 0x30 && code <= 0x4f) {
            stack.push_back(code - 0x30u);
        } else if (code >= 0x70 && code <= 0x8f) {
            const int number = code - 0x70;
            const int64_t offset = bytes.signed_number();
            if (!frame.has(number)) return false;
            stack.push_back(frame.values[number] + static_cast<uint64_t>(offset));
        } else if (code == 0x06) {
            uint64_t value = 0;
            if (!frame.read(pop(), value)) return false;
            stack.push_back(value);
        } else if (code == 0x08) { stack.push_back(bytes.template read<uint8_t>());
        } else if (code == 0x09) { stack.push_back(static_cast<uint64_t>(int64_t{bytes.template read<int8_t>()}));
        } else if (code == 0x0a) { stack.push_back(bytes.template read<uint16_t>());
        } else if (code == 0x0b) { stack.push_back(static_cast<uint64_t>(int64_t{bytes.template read<int16_t>()}));
        } else if (code == 0x0c) { stack.push_back(bytes.template read<uint32_t>());
        } else if (code == 0x0d) { stack.push_back(static_cast<uint64_t>(int64_t{bytes.template read<int32_t>()}));
        } else if (code == 0x10) { stack.push_back(bytes.unsigned_number());
        } else if (code == 0x11) { stack.push_back(static_cast<uint64_t>(bytes.signed_number()));
        } else if (code == 0x12) { stack.push_back(stack.empty() ? 0 : stack.back());
        } else if (code == 0x13) { pop();
        } else if (code == 0x23) { stack.push_back(pop() + bytes.unsigned_number());
        } else {
            const uint64_t right = pop(), left = pop();
            const int64_t a = static_cast<int64_t>(left), b = static_cast<int64_t>(right);
            switch (code) {
                case 0x1a: stack.push_back(left & right); break;
                case 0x1c: stack.push_back(left - right); break;
                case 0x1e: stack.push_back(left * right); break;
                case 0x21: stack.push_back(left | right); break;
                case 0x22: stack.push_back(left + right); break;
                case 0x24: stack.push_back(right < 64 ? left << right : 0); break;
                case 0x25: stack.push_back(right < 64 ? left >> right : 0); break;
                case 0x29: stack.push_back(a == b); break;
                case 0x2a: stack.push_back(a >= b); break;
                case 0x2b: stack.push_back(a > b); break;
                case 0x2c: stack.push_back(a <= b); break;
                case 0x2d: stack.push_back(a < b); break;
                case 0x2e: stack.push_back(a != b); break;
                default: return false;
            }
        }
    }
    if (bytes.failed() || stack.empty()) return false;
    result = stack.back();
    return true;
}

}  // namespace

void Unwinder::forget() {
    ranges_.clear();
    code_.clear();
    nowhere_.clear();
}

const CodeRange* Unwinder::find_code(uint64_t address) {
    auto found = ranges_.upper_bound(address);
    if (found != ranges_.begin() && address < (--found)->second.end) return &found->second;
    if (nowhere_.count(address)) return nullptr;
    const std::optional<CodeRange> range = (*find_)(address);
    if (!range || address < range->start || address >= range->end) {
        if (nowhere_.size() < kMostRemembered) nowhere_.insert(address);
        return nullptr;
    }
    return &(ranges_[range->start] = *range);
}

Unwound Unwinder::unwind(std::string_view registers, std::string_view stack, const FindCode& find,
                         const ReadCode& read) {
    find_ = &find;
    read_ = &read;
    Unwound found;
    if (registers.size() != sizeof(uint64_t) * kRegisters) return found;
    Frame frame;
    for (size_t i = 0; i < kRegisters; i++) {
        uint64_t value = 0;
        std::memcpy(&value, registers.data() + 8 * i, 8);
        frame.set(kSampled[i], value);
    }
    frame.stack_at = frame.values[kStackPointer];
    frame.stack = stack;
    while (found.addresses.size() < kMostFrames) {
        found.addresses.push_back(frame.values[kReturnAddress]);
        const uint64_t before = frame.values[kStackPointer];
        if (!step(frame, found.addresses.size() == 1)) break;
        // A caller's frame lies above: else the same would be found again and again.
        if (frame.values[kStackPointer] <= before || !frame.values[kReturnAddress]) {
            frame.has_ended = !frame.values[kReturnAddress];
            break;
        }
    }
    found.is_whole = frame.has_ended;
    found.is_cut = frame.is_cut && !frame.has_ended;
    return found;
}

bool Unwinder::step(Frame& frame, bool is_first) {
    const uint64_t pc = frame.values[kReturnAddress];
    // A call lies before the address where it returns to, which may be the next function's.
    const uint64_t place = pc - (!is_first && frame.is_return);
    const CodeRange* range = find_code(place);
    if (!range) return false;
    if (!range->table) {
        auto code = code_.find(pc);
        if (code == code_.end()) {
            if (code_.size() >= kMostRemembered) code_.clear();
            code = code_.emplace(pc, (*read_)(pc)).first;
        }
        return step_by_code(frame, code->second) || step_by_base(frame);
    }
    UnwindRules rules;
    if (!range->table->find(place - range->shift, rules)) return step_by_base(frame);
    return step_by_rules(frame, rules);
}

bool Unwinder::step_by_rules(Frame& frame, const UnwindRules& rules) {
    const UnwindRule& returns = rules.registers[kReturnAddress];
    if (returns.kind == UnwindRule::Kind::undefined) {  // so _start and clone mark their ends
        frame.has_ended = true;
        return false;
    }
    uint64_t cfa = 0;
    if (rules.base >= 0) {
        if (!frame.has(rules.base)) return false;
        cfa = frame.values[rules.base] + static_cast<uint64_t>(rules.offset);
    } else if (!evaluate(frame, rules.expression, {}, cfa)) {
        return false;
    }
    Frame caller = frame;
    caller.known &= kKept;
    caller.set(kStackPointer, cfa);
    for (int number = 0; number < kRegisters; number++) {
        const UnwindRule& rule = rules.registers[static_cast<size_t>(number)];
        uint64_t value = 0;
        bool is_known = true;
        switch (rule.kind) {
            case UnwindRule::Kind::unspecified: continue;
            case UnwindRule::Kind::undefined: is_known = false; break;
            case UnwindRule::Kind::same: value = frame.values[number]; is_known = frame.has(number); break;
            case UnwindRule::Kind::offset: is_known = frame.read(cfa + static_cast<uint64_t>(rule.number), value); break;
            case UnwindRule::Kind::value_offset: value = cfa + static_cast<uint64_t>(rule.number); break;
            case UnwindRule::Kind::in_register:
                is_known = rule.number < kRegisters && frame.has(static_cast<int>(rule.number));
                if (is_known) value = frame.values[rule.number];
                break;
            case UnwindRule::Kind::expression:
                is_known = evaluate(frame, rule.expression, cfa, value) && frame.read(value, value);
                break;
            case UnwindRule::Kind::value: is_known = evaluate(frame, rule.expression, cfa, value); break;
        }
        caller.known &= ~(1u << number);
        if (is_known) caller.set(number, value);
    }
    caller.is_cut = frame.is_cut;
    caller.is_return = !rules.is_signal;
    const bool is_known = caller.has(kReturnAddress);
    if (is_known) frame = caller;
    return is_known;
}

// Code that no file describes, such as CPython's trampolines: what follows a call in them restores the
// stack and returns, and these instructions say how.
bool Unwinder::step_by_code(Frame& frame, std::string_view code) {
    Frame caller = frame;
    size_t at = 0;
    const auto starts = [&](std::string_view bytes) { return code.substr(at, bytes.size()) == bytes; };
    using namespace std::string_view_literals;
    for (int left = 12; left && at < code.size(); left--) {
        const auto byte = [&](size_t i) { return at + i < code.size() ? static_cast<uint8_t>(code[at + i]) : 0; };
        uint64_t value = 0;
        if (starts("\x48\x83\xc4"sv)) {  // add $8, %rsp
            caller.values[kStackPointer] += static_cast<uint64_t>(int64_t{static_cast<int8_t>(byte(3))});
            at += 4;
        } else if (starts("\xf3\x0f\x1e\xfa"sv)) {  // endbr64
            at += 4;
        } else if (byte(0) == 0xc9) {  // leave
            if (!caller.has(kBasePointer)) return false;
            caller.values[kStackPointer] = caller.values[kBasePointer];
            if (!caller.pop(value)) break;
            caller.set(kBasePointer, value);
            at += 1;
        } else if (byte(0) >= 0x58 && byte(0) <= 0x5f) {  // pop
            static constexpr int registers[] = {0, 2, 1, 3, 7, 6, 4, 5};
            if (byte(0) == 0x5c || !caller.pop(value)) break;
            caller.set(registers[byte(0) & 7], value);
            at += 1;
        } else if (byte(0) == 0x41 && byte(1) >= 0x58 && byte(1) <= 0x5f) {  // pop %r8 to %r15
            if (!caller.pop(value)) break;
            caller.set(8 + (byte(1) & 7), value);
            at += 2;
        } else if (byte(0) == 0xc3 || starts("\xf3\xc3"sv)) {  // ret
            if (!caller.pop(value)) break;
            caller.known &= kKept | 1u << kStackPointer;
            caller.set(kReturnAddress, value);
            caller.is_return = true;
            frame = caller;
            return true;
        } else {
            return false;
        }
    }
    frame.is_cut = frame.is_cut || caller.is_cut;
    return false;
}

// Code without rules that may keep a frame pointer; only where it leads to code again.
bool Unwinder::step_by_base(Frame& frame) {
    uint64_t base = 0, returns = 0;
    if (frame.is_cut || !frame.has(kBasePointer)) return false;
    const uint64_t at = frame.values[kBasePointer];
    const bool was_cut = frame.is_cut;
    if (at < frame.values[kStackPointer] || !frame.read(at, base) || !frame.read(at + 8, returns) ||
        !returns || !find_code(returns - 1)) {
        frame.is_cut = was_cut;
        return false;
    }
    frame.known &= kKept;
    frame.set(kBasePointer, base);
    frame.set(kStackPointer, at + 16);
    frame.set(kReturnAddress, returns);
    frame.is_return = true;
    return true;
}

}  // namespace sightline
