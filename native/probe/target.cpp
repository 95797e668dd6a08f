#include "probe/target.h"

#include <ctime>

namespace sightline {
namespace {

std::int64_t read_clock() noexcept {
    std::timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

// It begins with the instruction that most functions of GPU libraries begin with: on x86-64 the
// kernel emulates it, on AArch64 it steps over it. Written out, as compilers leave it away where
// nothing needs it.
#if defined(__x86_64__) || defined(__aarch64__)
#define SIGHTLINE_HAS_TARGET
extern "C" int sightline_probe_target(std::uint64_t, std::uint64_t);
__asm__(
    ".text\n"
    ".p2align 4\n"
    ".type sightline_probe_target, %function\n"
    "sightline_probe_target:\n"
#if defined(__x86_64__)
    "    push %rbp\n"
    "    xor %eax, %eax\n"
    "    pop %rbp\n"
#else
    "    stp x29, x30, [sp, #-16]!\n"
    "    mov x0, #0\n"
    "    ldp x29, x30, [sp], #16\n"
#endif
    "    ret\n"
    ".size sightline_probe_target, . - sightline_probe_target\n");
#endif

}  // namespace

std::uint64_t find_probe_target() noexcept {
#if defined(SIGHTLINE_HAS_TARGET)
    return reinterpret_cast<std::uint64_t>(&sightline_probe_target);
#else
    return 0;
#endif
}

std::int64_t time_probe_target(std::int64_t calls) noexcept {
#if defined(SIGHTLINE_HAS_TARGET)
    const std::int64_t start = read_clock();
    for (std::int64_t call = 0; call < calls; ++call) sightline_probe_target(0, 0);
    return read_clock() - start;
#else
    return 0 * calls;
#endif
}

}  // namespace sightline
