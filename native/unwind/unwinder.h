// Follows the callers of a thread from its registers and a copy of its stack.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "unwind/table.h"

namespace sightline {

// A stretch of a process's memory that holds code. What an image has at address a lies at a + shift;
// without a table its bytes are asked for.
struct CodeRange {
    uint64_t start = 0, end = 0, shift = 0;
    std::shared_ptr<const UnwindTable> table;
};

struct Unwound {
    std::vector<uint64_t> addresses;  // where the thread was, and then where each call returns to
    // Whether the last one is where the thread began; else the copy of the stack ended, or what led
    // on is not known.
    bool is_whole = false, is_cut = false;
};

// One process. What is asked is remembered until `forget`.
class Unwinder {
public:
    using FindCode = std::function<std::optional<CodeRange>(uint64_t)>;
    using ReadCode = std::function<std::string(uint64_t)>;

    // registers: 17 of 8 bytes as perf samples them (ax, bx, cx, dx, si, di, bp, sp, ip, r8 to r15);
    // stack: bytes from the stack pointer on. `find` and `read` are asked for what is new.
    Unwound unwind(std::string_view registers, std::string_view stack, const FindCode& find,
                   const ReadCode& read);
    void forget();

private:
    struct Frame;
    const CodeRange* find_code(uint64_t address);
    bool step(Frame& frame, bool is_first);
    bool step_by_rules(Frame& frame, const UnwindRules& rules);
    bool step_by_code(Frame& frame, std::string_view code);
    bool step_by_base(Frame& frame);

    const FindCode* find_ = nullptr;  // during `unwind`
    const ReadCode* read_ = nullptr;
    std::map<uint64_t, CodeRange> ranges_;  // by start
    std::map<uint64_t, std::string> code_;  // bytes from an address on
    std::set<uint64_t> nowhere_;            // addresses that are no code
};

}  // namespace sightline
