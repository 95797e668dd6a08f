"""What differs between processors: where a function's arguments are as it begins, and numbers.

System V ABI for x86-64 (figure 3.4); Procedure Call Standard for the Arm 64-bit Architecture,
6.8.2. A dim3, which is two registers long, takes two places in both.
"""

from __future__ import annotations

import platform
from typing import NamedTuple


class Processor(NamedTuple):
    """One that probes are known for. Places count the registers in the order of `sampled`."""

    machine: str  # as uname has it
    elf: int  # e_machine
    bpf: int  # the number of bpf(2)
    sampled: tuple[int, ...]  # bits of the registers that are sampled: PERF_REG_*, ascending
    arguments: tuple[int, ...]  # places of the registers with arguments; more are on the stack
    result: int  # the place of what a function returns
    stack: int  # the place of the stack pointer
    call_bytes: int  # what a call puts on the stack: the arguments there follow it
    steps_may_be_cheap: bool  # whether stepping over an instruction may cost little: see placement


# arch/x86/include/uapi/asm/perf_regs.h: ax, cx, dx, si, di, sp, r8, r9.
X86_64 = Processor(
    "x86_64", 62, 321, (0, 2, 3, 4, 5, 7, 16, 17), (4, 3, 2, 1, 6, 7), 0, 5, 8, False
)
# arch/arm64/include/uapi/asm/perf_regs.h: x0 to x7, sp.
AARCH64 = Processor(
    "aarch64", 183, 280, (*range(8), 31), tuple(range(8)), 0, 8, 0, True
)  # fmt: skip
PROCESSORS = (X86_64, AARCH64)


def find_processor() -> Processor | None:
    """That of this machine; None where probes are not known for it."""
    return next((p for p in PROCESSORS if p.machine == platform.machine()), None)


def find_by_elf(number: int) -> Processor | None:
    """The one that a file's code is for."""
    return next((p for p in PROCESSORS if p.elf == number), None)
