// How to get from a place in code to its caller: the call frame information of one image.
//
// Formats: Linux Standard Base Core 5.0, 10.6 (.eh_frame, .eh_frame_hdr); DWARF 4, 6.4 and 2.5;
// register numbers of the System V ABI for AMD64, 3.6.2.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace sightline {

constexpr int kBasePointer = 6, kStackPointer = 7, kReturnAddress = 16, kRegisters = 17;

// How a register of the caller is found.
struct UnwindRule {
    enum class Kind : uint8_t { unspecified, undefined, same, offset, value_offset, in_register, expression, value };
    Kind kind = Kind::unspecified;
    int64_t number = 0;           // an offset from the frame's address, or a register
    std::string_view expression;  // DWARF operations
};

// How the frame that a place in code belongs to is left.
struct UnwindRules {
    int base = -1;  // the frame's address is this register plus `offset`; -1: the expression
    int64_t offset = 0;
    std::string_view expression;
    std::array<UnwindRule, kRegisters> registers;
    bool is_signal = false;  // called by the kernel: its caller's address is no return address
};

class UnwindTable {
public:
    // Contents and addresses of .eh_frame_hdr and .eh_frame. Raises std::invalid_argument where the
    // index is of a form that no linker writes.
    UnwindTable(std::string index, uint64_t index_at, std::string frames, uint64_t frames_at);

    // The rules of the code at an address of the image; false where there are none.
    bool find(uint64_t address, UnwindRules& rules) const;

private:
    std::string index_, frames_;
    uint64_t index_at_, frames_at_;
    size_t first_ = 0, count_ = 0;  // of the index's entries
};

}  // namespace sightline
