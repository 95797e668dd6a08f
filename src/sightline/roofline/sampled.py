"""How near a kernel came to its compute roof, bounded by samples of its instructions alone.

Each SM's sampler looks at one active warp every so many cycles (Nsight Compute, Kernel Profiling
Guide, "Sampling"). So the share of samples in which the warp had issued is the SM's instructions
per cycle over its active warps. What was measured of that, and what it rests on: docs/roofline.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sightline.roofline.flops import count_product
from sightline.roofline.occupancy import Launch, Limits, compute_occupancy

_SURE = 1.96  # of a normal distribution, both sides together 5 %
# Active warps are at least this share of those that fit: an assumption. What kernel profilers
# measured of 9 kernels was 0.76 to 1.00 of them (docs/roofline.md).
ASSUMED_SHARE = 0.5
# What the driver keeps of each block's shared memory since compute capability 8.0 (CUDA C++
# Programming Guide 12.9, "Shared Memory" of 8.x), in bytes.
DRIVER_SHARED_BYTES = 1024
# Samples may name this much more SM cycles than there were: a kernel's time is that of the
# timeline, its samples may start and end a little beside it (ours; 3 kernels: up to 4 %).
CYCLE_TOLERANCE = 1.05
_LANES = 32
# Where lanes that parted meet again (CUDA Binary Utilities 12.9, "Instruction Set Reference").
REJOINS = ("BSSY", "BSYNC", "WARPSYNC", "BREAK")
# Bytes of a thread's access, by the ending of the operation; 32 bits have none.
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "": 4, "64": 8, "128": 16, "256": 32}
_GLOBAL = ("LDG", "STG", "LD", "ST", "LDL", "STL", "LDGSTS")
# Precision, and FLOP of a thread's instruction at least and at most. Compilers also load constants
# with HFMA2, which then computes nothing.
_VECTOR = {
    "FADD": ("fp32", 1, 1), "FMUL": ("fp32", 1, 1), "FFMA": ("fp32", 2, 2),
    "FADD2": ("fp32", 2, 2), "FMUL2": ("fp32", 2, 2), "FFMA2": ("fp32", 4, 4),
    "DADD": ("fp64", 1, 1), "DMUL": ("fp64", 1, 1), "DFMA": ("fp64", 2, 2),
    "HADD2": ("fp16", 2, 2), "HMUL2": ("fp16", 2, 2), "HFMA2": ("fp16", 0, 4),
}  # fmt: skip


@dataclass(frozen=True)
class Bounds:
    """At least and at most."""

    low: float
    high: float

    def scale(self, low: float, high: float | None = None) -> Bounds:
        """Both times a number, or each times its own."""
        return Bounds(self.low * low, self.high * (low if high is None else high))


@dataclass(frozen=True)
class Shape:
    """Launches of a kernel with the same grid, block and resources."""

    launches: int
    blocks: int
    threads: int  # of a block
    registers: int
    shared_bytes: int  # static and dynamic


@dataclass(frozen=True)
class Chip:
    """What is known of the device; None where the recording does not say."""

    limits: Limits
    sms: int | None
    max_clock_hz: int | None


@dataclass(frozen=True)
class Samples:
    """A kernel's samples: all, and those in which the warp had issued, by operation."""

    count: int
    issued: Mapping[str | None, int]
    period_cycles: int | None
    seconds: float | None  # of its launches on the device, together
    parts: bool = True  # whether its code has points at which diverged lanes reconverge
    is_whole: bool = True  # whether all launches that were sampled are among the known ones

    @property
    def instructions(self) -> int:
        """Samples in which the warp had issued."""
        return sum(self.issued.values())


@dataclass(frozen=True)
class Rate:
    """Work: in a cycle of an SM that is active, and in a second of the kernel's time."""

    per_cycle: Bounds
    per_second: Bounds | None


def bound_share(part: float, whole: float) -> Bounds:
    """The share of which `part` of `whole` samples were met, in 95 of 100 recordings (Wilson)."""
    if whole <= 0:
        return Bounds(0.0, 1.0)
    share, more = part / whole, _SURE**2 / whole
    middle = (share + more / 2) / (1 + more)
    half = math.sqrt(share * (1 - share) * more + more**2 / 4) / (1 + more)
    return Bounds(max(0.0, middle - half), min(1.0, middle + half))


def bound_warps(shapes: Sequence[Shape], chip: Chip) -> Bounds:
    """Active warps of an SM while the kernel has any there, on average.

    At most what fits the SM and what the grid has; at least ASSUMED_SHARE of that. Without any
    launch known: one warp to all that an SM holds.
    """
    low, high = float(chip.limits.max_warps), 0.0
    for shape in shapes:
        kept = DRIVER_SHARED_BYTES if chip.limits.shared_unit < 256 else 0
        launch = Launch(shape.threads, shape.registers, shape.shared_bytes + kept)
        result = compute_occupancy(chip.limits, launch)
        fit = max(1, result.active_blocks)
        spread = shape.blocks / chip.sms if chip.sms else float(fit)
        high = max(high, min(fit, math.ceil(spread)) * result.warps_per_block)
        full = max(1.0, min(fit, spread)) * result.warps_per_block
        low = min(low, max(1.0, ASSUMED_SHARE * full))
    return Bounds(low, high) if shapes else Bounds(1.0, low)


def count_warps(shapes: Sequence[Shape], warp_size: int = _LANES) -> int:
    """Warps that were launched."""
    return sum(s.launches * s.blocks * -(-s.threads // warp_size) for s in shapes)


def fits_time(samples: Samples, chip: Chip) -> bool:
    """Whether one sample of each SM and period of the known launches explains all samples."""
    if not samples.is_whole or None in (
        samples.period_cycles,
        samples.seconds,
        chip.sms,
        chip.max_clock_hz,
    ):
        return False
    there_were = chip.sms * samples.seconds * chip.max_clock_hz  # type: ignore[operator]
    return _count_cycles(samples) <= CYCLE_TOLERANCE * there_were


def bound_rate(
    part: float,
    each: tuple[float, float],
    samples: Samples,
    shapes: Sequence[Shape],
    chip: Chip,
) -> Rate:
    """The rate of work of which `part` of the issued samples did `each` (at least, at most).

    Of a second there are two lower bounds, and the higher one counts: the samples' own number,
    each of which stands for its period's cycles of one SM; and the warps that were launched, each
    of which executes EXIT at least once. The upper bound takes the highest clock and all SMs that
    have a block.
    """
    warps = bound_warps(shapes, chip)
    share = bound_share(part, samples.count)
    per_cycle = Bounds(share.low * warps.low * each[0], share.high * warps.high * each[1])
    per_second = None
    if samples.seconds and chip.sms and chip.max_clock_hz:
        active = min(chip.sms, max((s.blocks for s in shapes), default=chip.sms))
        high = per_cycle.high * active * chip.max_clock_hz
        low = 0.0
        if fits_time(samples, chip):
            low = per_cycle.low * _count_cycles(samples) / samples.seconds
        low = max(low, _count_by_exits(part, samples, shapes) * each[0] / samples.seconds)
        per_second = Bounds(min(low, high), high)
        # What is there in a second was done in no more cycles than a second has.
        at_least = per_second.low / (active * chip.max_clock_hz)
        per_cycle = Bounds(min(max(per_cycle.low, at_least), per_cycle.high), per_cycle.high)
    return Rate(per_cycle, per_second)


def _count_cycles(samples: Samples) -> float:
    """Cycles of single SMs that the samples stand for."""
    return float(samples.count * (samples.period_cycles or 0))


def _count_by_exits(part: float, samples: Samples, shapes: Sequence[Shape]) -> float:
    """So many times the sampled work was done at least, as every warp executes EXIT."""
    exits = samples.issued.get("EXIT", 0) + samples.issued.get("@EXIT", 0)
    odds = bound_share(part, part + exits)
    # Of no EXIT at all the bound is still finite: Wilson's share of none is not none.
    return count_warps(shapes) * odds.low / (1 - odds.low) if odds.low < 1 else 0.0


def sum_operations(samples: Samples) -> dict[str, tuple[int, tuple[float, float]]]:
    """Issued samples of arithmetic by precision, and FLOP of one warp's instruction on average.

    FLOP at least and at most: by the lanes that may be on. Products without a readable size are
    no part.
    """
    found: dict[str, list[tuple[int, float, float]]] = {}
    for operation, count in samples.issued.items():
        name = (operation or "").removeprefix("@")
        vector, product = _VECTOR.get(name), count_product(name)
        if vector is not None:
            precision, low, high = vector
            lanes = _count_lanes(operation, samples)
            found.setdefault(precision, []).append((count, lanes * low, _LANES * high))
        elif product is not None:
            found.setdefault(f"{product[0]}_tensor", []).append((count, product[1], product[1]))
    return {precision: _average(parts) for precision, parts in found.items()}


def sum_requests(samples: Samples) -> tuple[int, tuple[float, float]]:
    """Issued loads and stores of global and local memory, and bytes that one asks the L1 for."""
    parts = []
    for operation, count in samples.issued.items():
        name, _, width = (operation or "").removeprefix("@").partition(".")
        if name in _GLOBAL and width in _BYTES:
            lanes = _count_lanes(operation, samples)
            parts.append((count, float(lanes * _BYTES[width]), float(_LANES * _BYTES[width])))
    return _average(parts)


def _count_lanes(operation: str | None, samples: Samples) -> int:
    """Lanes that are on at least: those of a predicate may be none."""
    if (operation or "").startswith("@"):
        return 0
    return 1 if samples.parts else _LANES


def find_unsized(issued: Mapping[str | None, int]) -> int:
    """Issued samples of matrix products whose size is not known."""
    return sum(
        n
        for op, n in issued.items()
        if op is not None and "MMA" in op.partition(".")[0] and not count_product(op.lstrip("@"))
    )


def _average(parts: Sequence[tuple[int, float, float]]) -> tuple[int, tuple[float, float]]:
    count = sum(n for n, _, _ in parts)
    if not count:
        return 0, (0.0, 0.0)
    return count, (
        sum(n * low for n, low, _ in parts) / count,
        sum(n * high for n, _, high in parts) / count,
    )
