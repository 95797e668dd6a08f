"""Whether a probe on an instruction is cheap: the kernel emulates some, and steps over the others.

An instruction that is not emulated is executed out of line with the trap flag set: two exceptions
instead of one. Measured (benchmarks/probe_cost.py): 0.44 us a hit on `push`, 15.6 us on `endbr64`,
`mov`, `sub` and all others. A GPU program makes up to 100,000 such calls a second, so no probe is
placed there.

Emulated on x86-64 (Linux, arch/x86/kernel/uprobes.c: branch_setup_xol_ops, push_setup_xol_ops):
nop (90, and from 6.16 on those of several bytes), jmp (eb, e9), call (e8), the conditional jumps
(70 to 7f, 0f 80 to 0f 8f) and push of a register (50 to 57, also behind a REX prefix 40 to 4f).
"""

from __future__ import annotations

from typing import NamedTuple

ENDBR64 = bytes.fromhex("f30f1efa")
NEEDED_BYTES = len(ENDBR64) + 15  # the longest instruction has 15
# The nops of more than a byte that assemblers write: Intel SDM volume 2B, NOP, table 4-12.
_LONG_NOPS = tuple(
    bytes.fromhex(text)
    for text in (
        "6690", "0f1f00", "0f1f4000", "0f1f440000", "660f1f440000", "0f1f8000000000",
        "0f1f840000000000", "660f1f840000000000",
    )
)  # fmt: skip
# Linux 6.16, commit 610f6e14c29d "uprobes/x86: Add support to emulate NOP instructions".
LONG_NOPS_SINCE = (6, 16)


class Place(NamedTuple):
    """How far behind a function's first byte its probe goes, or why there is none."""

    skip: int
    refused: str | None


def find_place(code: bytes, kernel: tuple[int, int]) -> Place:
    """Where to probe a function that begins with `code`, on a kernel of that version.

    An endbr64 is passed over: it changes nothing, and all calls run on into what follows.
    """
    skip = len(ENDBR64) if code.startswith(ENDBR64) else 0
    rest = code[skip:]
    if is_emulated(rest, kernel):
        return Place(skip, None)
    return Place(0, f"its first instruction ({rest[:4].hex(' ')} ...) would be single-stepped")


def is_emulated(code: bytes, kernel: tuple[int, int]) -> bool:
    """Whether the kernel emulates the instruction that `code` begins with."""
    if not code:
        return False
    if kernel >= LONG_NOPS_SINCE and code.startswith(_LONG_NOPS):
        return True
    if code.startswith(b"\x66\x90"):  # "uprobes/x86: Allow to probe a NOP instruction with 0x66"
        return kernel >= (6, 2)
    first = code[0]
    if 0x40 <= first <= 0x4F and len(code) > 1:
        return 0x50 <= code[1] <= 0x57
    if first == 0x0F and len(code) > 1:
        return 0x80 <= code[1] <= 0x8F
    return first in (0x90, 0xEB, 0xE9, 0xE8) or 0x50 <= first <= 0x57 or 0x70 <= first <= 0x7F
