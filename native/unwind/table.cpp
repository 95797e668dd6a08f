#include "unwind/table.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "unwind/bytes.h"

namespace sightline {

namespace {

using Kind = UnwindRule::Kind;

constexpr uint8_t kOmitted = 0xff, kIndirect = 0x80;

// A number in one of the encodings DW_EH_PE_*; `here` is the address of the byte that is read.
uint64_t read_encoded(DwarfBytes& bytes, uint8_t encoding, uint64_t here, uint64_t data_at) {
    uint64_t value = 0;
    switch (encoding & 0x0f) {
        case 0x00: case 0x04: case 0x0c: value = bytes.read<uint64_t>(); break;
        case 0x01: value = bytes.unsigned_number(); break;
        case 0x02: value = bytes.read<uint16_t>(); break;
        case 0x03: value = bytes.read<uint32_t>(); break;
        case 0x09: value = static_cast<uint64_t>(bytes.signed_number()); break;
        case 0x0a: value = static_cast<uint64_t>(int64_t{bytes.read<int16_t>()}); break;
        case 0x0b: value = static_cast<uint64_t>(int64_t{bytes.read<int32_t>()}); break;
        default: break;
    }
    if ((encoding & 0x70) == 0x10) value += here;
    if ((encoding & 0x70) == 0x30) value += data_at;
    return value;
}

// What all functions of a compilation unit have in common.
struct Common {
    uint64_t code_step = 1;
    int64_t data_step = 1;
    uint8_t encoding = 0;
    bool has_augmentation = false, is_signal = false;
    std::string_view instructions;
};

struct Entry {
    size_t content = 0, end = 0;  // places in .eh_frame
    bool is_valid = false;
};

Entry read_length(std::string_view frames, size_t at) {
    DwarfBytes bytes(frames, at);
    uint64_t size = bytes.read<uint32_t>();
    if (size == 0xffffffff) size = bytes.read<uint64_t>();
    const size_t start = bytes.at();
    if (bytes.failed() || size < 4 || size > frames.size() - start) return {};
    return {start, start + static_cast<size_t>(size), true};
}

bool read_common(std::string_view frames, size_t at, uint64_t frames_at, Common& common) {
    const Entry entry = read_length(frames, at);
    if (!entry.is_valid) return false;
    DwarfBytes bytes(frames, entry.content);
    bytes.stop_at(entry.end);
    if (bytes.read<uint32_t>() != 0) return false;  // no common entry
    const uint8_t version = bytes.read<uint8_t>();
    if (version != 1 && version != 3) return false;
    std::string augmentation;
    while (const char c = bytes.read<char>()) augmentation += c;
    if (!augmentation.empty() && augmentation[0] != 'z') return false;
    common.code_step = bytes.unsigned_number();
    common.data_step = bytes.signed_number();
    const uint64_t returns = version == 1 ? bytes.read<uint8_t>() : bytes.unsigned_number();
    if (returns != kReturnAddress) return false;
    if (!augmentation.empty()) {
        common.has_augmentation = true;
        const uint64_t size = bytes.unsigned_number();
        const size_t behind = bytes.at() + size;
        for (const char c : augmentation.substr(1)) {
            if (c == 'L') bytes.read<uint8_t>();
            if (c == 'R') common.encoding = bytes.read<uint8_t>();
            if (c == 'S') common.is_signal = true;
            if (c == 'P') {
                const uint8_t encoding = bytes.read<uint8_t>();
                read_encoded(bytes, encoding, frames_at + bytes.at(), 0);
            }
        }
        if (bytes.failed() || behind > entry.end) return false;
        common.instructions = frames.substr(behind, entry.end - behind);
    } else {
        common.instructions = frames.substr(bytes.at(), entry.end - bytes.at());
    }
    return !bytes.failed();
}

// Runs instructions DW_CFA_* up to the one that is for code behind an address.
class Interpreter {
public:
    Interpreter(const Common& common, uint64_t begin, uint64_t address, UnwindRules& rules)
        : common_(common), at_(begin), address_(address), rules_(rules) {}

    bool run(std::string_view instructions, uint64_t instructions_at) {
        DwarfBytes bytes(instructions, 0);
        while (!bytes.at_end()) {
            const uint8_t code = bytes.read<uint8_t>();
            const uint8_t low = code & 0x3f;
            switch (code >> 6) {
                case 1: at_ += low * common_.code_step; break;
                case 2: set(low, Kind::offset, scaled(bytes.unsigned_number())); break;
                case 3: restore(low); break;
                default:
                    if (!run_one(code, bytes, instructions_at)) return false;
            }
            if (at_ > address_) return true;
        }
        return !bytes.failed();
    }

    void keep_initial() { initial_ = rules_; }

private:
    int64_t scaled(uint64_t number) const { return static_cast<int64_t>(number) * common_.data_step; }

    void set(uint64_t number, Kind kind, int64_t value, std::string_view expression = {}) {
        if (number < kRegisters) rules_.registers[number] = {kind, value, expression};
    }

    void restore(uint64_t number) {
        if (number < kRegisters) rules_.registers[number] = initial_.registers[number];
    }

    void set_base(uint64_t number, int64_t offset) {
        rules_.base = number < kRegisters ? static_cast<int>(number) : kRegisters;
        rules_.offset = offset;
    }

    bool run_one(uint8_t code, DwarfBytes& bytes, uint64_t instructions_at) {
        uint64_t number = 0;
        switch (code) {
            case 0x00: break;
            case 0x01:
                at_ = read_encoded(bytes, common_.encoding, instructions_at + bytes.at(), 0);
                break;
            case 0x02: at_ += bytes.read<uint8_t>() * common_.code_step; break;
            case 0x03: at_ += bytes.read<uint16_t>() * common_.code_step; break;
            case 0x04: at_ += bytes.read<uint32_t>() * common_.code_step; break;
            case 0x05: number = bytes.unsigned_number(); set(number, Kind::offset, scaled(bytes.unsigned_number())); break;
            case 0x06: restore(bytes.unsigned_number()); break;
            case 0x07: set(bytes.unsigned_number(), Kind::undefined, 0); break;
            case 0x08: set(bytes.unsigned_number(), Kind::same, 0); break;
            case 0x09: number = bytes.unsigned_number(); set(number, Kind::in_register, static_cast<int64_t>(bytes.unsigned_number())); break;
            case 0x0a:
                if (states_.size() >= 64) return false;
                states_.push_back(rules_);
                break;
            case 0x0b:
                if (states_.empty()) return false;
                rules_ = states_.back();
                states_.pop_back();
                break;
            case 0x0c: number = bytes.unsigned_number(); set_base(number, static_cast<int64_t>(bytes.unsigned_number())); break;
            case 0x0d: set_base(bytes.unsigned_number(), rules_.offset); break;
            case 0x0e: rules_.offset = static_cast<int64_t>(bytes.unsigned_number()); break;
            case 0x0f: rules_.base = -1; rules_.expression = bytes.take(bytes.unsigned_number()); break;
            case 0x10: number = bytes.unsigned_number(); set(number, Kind::expression, 0, bytes.take(bytes.unsigned_number())); break;
            case 0x11: number = bytes.unsigned_number(); set(number, Kind::offset, bytes.signed_number() * common_.data_step); break;
            case 0x12: number = bytes.unsigned_number(); set_base(number, bytes.signed_number() * common_.data_step); break;
            case 0x13: rules_.offset = bytes.signed_number() * common_.data_step; break;
            case 0x14: number = bytes.unsigned_number(); set(number, Kind::value_offset, scaled(bytes.unsigned_number())); break;
            case 0x15: number = bytes.unsigned_number(); set(number, Kind::value_offset, bytes.signed_number() * common_.data_step); break;
            case 0x16: number = bytes.unsigned_number(); set(number, Kind::value, 0, bytes.take(bytes.unsigned_number())); break;
            case 0x2e: bytes.unsigned_number(); break;  // DW_CFA_GNU_args_size
            case 0x2f: number = bytes.unsigned_number(); set(number, Kind::offset, -scaled(bytes.unsigned_number())); break;
            default: return false;
        }
        return !bytes.failed();
    }

    const Common& common_;
    uint64_t at_, address_;
    UnwindRules& rules_;
    UnwindRules initial_;
    std::vector<UnwindRules> states_;
};

}  // namespace

UnwindTable::UnwindTable(std::string index, uint64_t index_at, std::string frames, uint64_t frames_at)
    : index_(std::move(index)), frames_(std::move(frames)), index_at_(index_at), frames_at_(frames_at) {
    DwarfBytes bytes(index_, 0);
    const uint8_t version = bytes.read<uint8_t>(), frames_encoding = bytes.read<uint8_t>();
    const uint8_t count_encoding = bytes.read<uint8_t>(), table_encoding = bytes.read<uint8_t>();
    // All linkers write a sorted table of 32-bit distances from the index.
    if (version != 1 || table_encoding != 0x3b || count_encoding == kOmitted || frames_encoding & kIndirect)
        throw std::invalid_argument("its index of call frames has no sorted table");
    read_encoded(bytes, frames_encoding, index_at_ + bytes.at(), index_at_);
    const uint64_t count = read_encoded(bytes, count_encoding, index_at_ + bytes.at(), index_at_);
    first_ = bytes.at();
    if (bytes.failed() || count > (index_.size() - first_) / 8)
        throw std::invalid_argument("its index of call frames ends early");
    count_ = static_cast<size_t>(count);
}

bool UnwindTable::find(uint64_t address, UnwindRules& rules) const {
    const auto entry = [this](size_t number, size_t column) {
        int32_t value = 0;
        std::memcpy(&value, index_.data() + first_ + 8 * number + 4 * column, 4);
        return index_at_ + static_cast<uint64_t>(int64_t{value});
    };
    size_t low = 0, high = count_;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (entry(middle, 0) <= address) low = middle + 1;
        else high = middle;
    }
    if (low == 0) return false;
    const uint64_t place = entry(low - 1, 1) - frames_at_;
    if (place >= frames_.size()) return false;
    const Entry found = read_length(frames_, static_cast<size_t>(place));
    if (!found.is_valid) return false;
    DwarfBytes bytes(frames_, found.content);
    bytes.stop_at(found.end);
    const uint32_t back = bytes.read<uint32_t>();
    if (back == 0 || back > found.content) return false;
    Common common;
    if (!read_common(frames_, found.content - back, frames_at_, common)) return false;
    const uint64_t begin = read_encoded(bytes, common.encoding, frames_at_ + bytes.at(), index_at_);
    const uint64_t size = read_encoded(bytes, common.encoding & 0x0f, 0, 0);
    if (common.has_augmentation) bytes.take(bytes.unsigned_number());
    if (bytes.failed() || address < begin || address - begin >= size) return false;
    rules = {};
    rules.is_signal = common.is_signal;
    Interpreter interpreter(common, begin, address, rules);
    // What all functions begin with holds from the first address on, whatever it advances.
    if (!interpreter.run(common.instructions, 0)) return false;
    interpreter.keep_initial();
    const size_t at = bytes.at();
    return interpreter.run(std::string_view(frames_).substr(at, found.end - at), frames_at_ + at);
}

}  // namespace sightline
