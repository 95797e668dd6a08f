"""What the device could do at most: the ceilings of a roofline, and where each comes from.

Order of trust: counters of the same report (peak per cycle × measured clock), then attributes of
the device in the report, then the table. Three ceilings are kept apart: `datasheet` (as printed),
`measured` (at the clock that the kernel ran at) and `achievable` (the best that a benchmark
reached on such a device). What is not known is None.
"""

from __future__ import annotations

from dataclasses import dataclass

from sightline.roofline.facts import CYCLES, SM_CLOCK, TIME, Facts
from sightline.roofline.flops import FMA_PEAK, OPS_PATH, count_work
from sightline.roofline.hardware import FLOP_PER_CLOCK, Gpu, find_gpu
from sightline.roofline.rates import ARCHITECTURES

_DRAM_PEAK = ("dram__bytes.sum.peak_sustained", "dram__cycles_elapsed.avg.per_second")
# The vendor's hierarchical roofline of the same reports defines L2 and L1 so: bytes that L1 reads
# from L2, and 128 bytes for each cycle in which the L1 returns global or local data.
_L2_PEAK = (
    "l1tex__m_xbar2l1tex_read_bytes.sum.peak_sustained",
    "lts__cycles_elapsed.avg.per_second",
)
_L1_PEAK = (
    "l1tex__lsu_writeback_active_mem_lg.sum.peak_sustained",
    "l1tex__lsu_writeback_active_mem_lgds.sum.peak_sustained",
    "l1tex__lsu_writeback_active.sum.peak_sustained",
)
_L1_CLOCK = "l1tex__cycles_elapsed.avg.per_second"
L1_BYTES = 128
METRICS = (
    CYCLES,
    SM_CLOCK,
    TIME,
    "gpc__cycles_elapsed.avg.per_second",
    *_DRAM_PEAK,
    *_L2_PEAK,
    *_L1_PEAK,
    _L1_CLOCK,
)


@dataclass(frozen=True)
class Peak:
    """A ceiling, in FLOP/s or bytes/s, at the three bases, and the source of the measured one."""

    datasheet: float | None
    measured: float | None
    achievable: float | None
    source: str | None  # counters, device attributes or table

    @property
    def best(self) -> float | None:
        """The ceiling to judge by: at the measured clock, else as printed."""
        return self.measured if self.measured is not None else self.datasheet


def find_gpu_of(facts: Facts) -> Gpu | None:
    """The table's row for the kernel's device."""
    return find_gpu(facts.device.get("name"), facts.device.get("memory_bytes"))


def find_compute_peak(facts: Facts, precision: str) -> Peak:
    """The ceiling of a precision such as fp32 or bf16_tensor."""
    gpu = find_gpu_of(facts)
    printed = gpu.number(f"peak.{precision}") if gpu else None
    reached = None
    if gpu and precision in ("bf16_tensor", "fp16_tensor"):
        reached = gpu.number("achievable.bf16_tensor")
    clock = facts.sm_clock
    counted = _counted_peak(facts, precision)
    if counted is not None and clock:
        return Peak(printed, counted * clock, reached, "counters")
    units, rate = facts.device.get("sm_count"), find_flop_per_clock(facts, precision)
    if units and rate:
        if clock:
            return Peak(printed, units * rate * clock, reached, "device attributes")
        highest = facts.device.get("max_clock_hz")
        if printed is None and highest:
            return Peak(units * rate * highest, None, reached, "device attributes")
    return Peak(printed, None, reached, "table" if printed is not None else None)


def compare_to_peak(facts: Facts, precision: str) -> float | None:
    """What a kernel computes of its GPU's peak of a precision, part of 1; None where not known."""
    work = next((w for w in count_work(facts) if w.precision == precision), None)
    peak = find_compute_peak(facts, precision).best
    return work.per_s / peak if work is not None and work.per_s and peak else None


def _counted_peak(facts: Facts, precision: str) -> float | None:
    """Operations per cycle of the whole device, from a counter's peak_sustained."""
    if precision in FMA_PEAK:
        name, flop = FMA_PEAK[precision]
        value = facts.get(name)
        return None if value is None else value * flop
    kind = precision.removesuffix("_tensor")
    values = [
        v
        for n, v in facts.metrics.items()
        if n.startswith(f"{OPS_PATH}{kind}")
        and n.endswith(".sum.peak_sustained")
        and "sparsity_on" not in n
    ]
    return max(values) if values and precision.endswith("_tensor") else None


def find_flop_per_clock(facts: Facts, precision: str) -> int | None:
    """FLOP of one SM in a cycle at most, at a precision such as fp32 or bf16_tensor."""
    gpu = find_gpu_of(facts)
    known = gpu.text("architecture") if gpu else None
    capability = facts.device.get("compute_capability")
    architecture = known or ARCHITECTURES.get(capability or "")
    if known is None and precision.endswith("_tensor") and capability in ("8.6", "8.9"):
        return None
    return FLOP_PER_CLOCK.get(architecture or "", {}).get(precision)


def find_memory_peak(facts: Facts, level: str) -> Peak:
    """The ceiling of dram, l2 or l1."""
    gpu = find_gpu_of(facts)
    clock = facts.sm_clock
    if level == "dram":
        printed = gpu.number("memory_bandwidth") if gpu else None
        attributes = facts.device.get("memory_bandwidth_bytes_per_s")
        counted = _product(facts, *_DRAM_PEAK)
        if counted is not None:
            return Peak(printed or attributes, counted, None, "counters")
        if attributes:
            return Peak(printed or attributes, float(attributes), None, "device attributes")
        return Peak(printed, None, None, "table" if printed else None)
    if level == "l2":
        printed = gpu.number("l2_bandwidth") if gpu else None
        counted = _product(facts, *_L2_PEAK)
        return Peak(printed, counted, None, "counters" if counted else "table" if printed else None)
    peak = facts.get(*_L1_PEAK)
    l1_clock = facts.get(_L1_CLOCK) or clock
    if peak is not None and l1_clock:
        return Peak(None, L1_BYTES * peak * l1_clock, None, "counters")
    units = facts.device.get("sm_count")
    if units and clock and facts.device.get("vendor") == "nvidia":
        return Peak(None, L1_BYTES * units * clock, None, "device attributes")
    return Peak(None, None, None, None)


def _product(facts: Facts, peak: str, clock: str) -> float | None:
    a, b = facts.get(peak), facts.get(clock)
    return a * b if a is not None and b is not None else None
