"""Whether a probe on an instruction is cheap: the kernel emulates some, and steps over the others.

An instruction that is not emulated is executed out of line with the trap flag set: two exceptions
instead of one. Measured (benchmarks/probe_cost.py): 0.44 us a hit on `push`, 15.6 us on `endbr64`,
`mov`, `sub` and all others. A GPU program makes up to 100,000 such calls a second, so no probe is
placed there.

On AArch64 nearly all functions begin with `stp x29, x30, [sp, #-N]!`, which is stepped over, too.
But a step is no trap into a hypervisor there, and takes 1.1 us where an emulated instruction takes
0.54 (Kunpeng 916: Liao Chang, "arm64: insn: Simulate nop instruction for better uprobe
performance", 2024-09-09). So it is measured, on a function that begins so (cost.py), before any
other is probed, and where it is dear, they are left out as on x86-64.

Emulated on x86-64 (Linux, arch/x86/kernel/uprobes.c: branch_setup_xol_ops, push_setup_xol_ops):
nop (90, and from 6.16 on those of several bytes), jmp (eb, e9), call (e8), the conditional jumps
(70 to 7f, 0f 80 to 0f 8f) and push of a register (50 to 57, also behind a REX prefix 40 to 4f). On
AArch64 (arch/arm64/kernel/probes/decode-insn.c): all branches, ADR and ADRP, and NOP from
6.13 on.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from sightline.record.probe.processors import AARCH64, X86_64, Processor

# The most that a step may take: three times what it took where it was measured.
MOST_STEP_NS = 3_300
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
# AArch64: where indirect calls may land (HINT 34 to 38), and NOP (HINT 0). Instructions by the bits
# that are fixed: Arm Architecture Reference Manual, C4.1.
_LANDINGS = (0xD503245F, 0xD50324DF)  # bti c, bti jc
_NOP = 0xD503201F
_NOP_SINCE = (6, 13)
_SIMULATED = (
    (0x7C000000, 0x14000000),  # b, bl
    (0xFF000010, 0x54000000),  # b.cond
    (0x7E000000, 0x34000000),  # cbz, cbnz
    (0x7E000000, 0x36000000),  # tbz, tbnz
    (0x1F000000, 0x10000000),  # adr, adrp
    (0xFF9FFC1F, 0xD61F0000),  # br, blr, ret
)


class Place(NamedTuple):
    """How far behind a function's first byte its probe goes, or why there is none."""

    skip: int
    refused: str | None


def find_place(
    code: bytes,
    kernel: tuple[int, int],
    processor: Processor = X86_64,
    *,
    cheap_steps: bool = False,
) -> Place:
    """Where to probe a function that begins with `code`, on a kernel of that version.

    An endbr64 or a bti is passed over: it changes nothing, and all calls run on into what follows.
    Not so paciasp, behind which a return can no longer be probed. `cheap_steps`: whether a step was
    measured to take less than MOST_STEP_NS.
    """
    if processor is AARCH64:
        return _find_place_aarch64(code, kernel, cheap_steps=cheap_steps)
    skip = len(ENDBR64) if code.startswith(ENDBR64) else 0
    rest = code[skip:]
    if is_emulated(rest, kernel):
        return Place(skip, None)
    return Place(0, f"would be single-stepped ({rest[:4].hex(' ')})")


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


def _find_place_aarch64(code: bytes, kernel: tuple[int, int], *, cheap_steps: bool) -> Place:
    words = [word for (word,) in struct.iter_unpack("<I", code[: len(code) // 4 * 4])]
    first = 1 if words[:1] and words[0] in _LANDINGS and len(words) > 1 else 0
    if not words:
        return Place(0, "it has no code")
    if cheap_steps or is_simulated(words[first], kernel):
        return Place(4 * first, None)
    return Place(0, f"would be single-stepped ({words[first]:08x})")


def is_simulated(word: int, kernel: tuple[int, int]) -> bool:
    """Whether the kernel does what an instruction of AArch64 does without executing it."""
    if word == _NOP:
        return kernel >= _NOP_SINCE
    return any(word & mask == value for mask, value in _SIMULATED)
