"""Where a kernel stands under its ceilings, and what bounds it.

Roofline model: Williams, Waterman, Patterson, CACM 52(4), 2009; hierarchical rooflines for GPUs:
Yang, Kurth, Williams, CCPE 32(20), 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

from sightline.roofline import flops, peaks
from sightline.roofline.facts import Facts
from sightline.roofline.flops import Work
from sightline.roofline.peaks import L1_BYTES, Peak, find_compute_peak, find_memory_peak

LEVELS = ("dram", "l2", "l1")
SM_PCT = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY_PCT = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
# Below this share of every limit a kernel waits rather than works (Nsight Compute 2024.1, rule
# SOLBottleneck: both throughputs under 60 %).
LATENCY_PCT = 60.0
# Nearer to each other than this, neither of the two bounds the kernel alone (the same rule).
BALANCED_PCT = 10.0
# From here on a unit is so busy that only less work for it helps (the same rule).
BUSY_PCT = 80.0
_SECTOR = 32  # bytes of a sector

_RATES = {
    "dram": (("dram__bytes.sum.per_second", 1.0),),
    "l2": (
        ("l1tex__m_xbar2l1tex_read_bytes.sum.per_second", 1.0),
        ("lts__t_sectors.sum.per_second", float(_SECTOR)),
    ),
    "l1": (
        ("l1tex__lsu_writeback_active_mem_lg.sum.per_second", float(L1_BYTES)),
        ("l1tex__lsu_writeback_active_mem_lgds.sum.per_second", float(L1_BYTES)),
        ("l1tex__lsu_writeback_active.sum.per_second", float(L1_BYTES)),
    ),
}
_TOTALS = {
    "dram": (("dram__bytes.sum", 1.0),),
    "l2": (("l1tex__m_xbar2l1tex_read_bytes.sum", 1.0), ("lts__t_sectors.sum", float(_SECTOR))),
    "l1": (
        ("l1tex__lsu_writeback_active_mem_lg.sum", float(L1_BYTES)),
        ("l1tex__lsu_writeback_active_mem_lgds.sum", float(L1_BYTES)),
        ("l1tex__lsu_writeback_active.sum", float(L1_BYTES)),
    ),
}
_DRAM_PARTS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
METRICS = (
    *flops.METRICS,
    *peaks.METRICS,
    SM_PCT,
    MEMORY_PCT,
    *_DRAM_PARTS,
    *(n for part in (_RATES, _TOTALS) for names in part.values() for n, _ in names),
)
PREFIXES = (flops.OPS_PATH,)


@dataclass(frozen=True)
class Placement:
    """One kernel and precision under its ceilings. `work` is None where none was counted."""

    facts: Facts
    work: Work | None
    compute: Peak
    memory: dict[str, Peak]
    bytes_per_s: dict[str, float | None]

    def intensity(self, level: str = "dram") -> float | None:
        """FLOP per byte of a level; None where there is no traffic or it was not measured."""
        rate = self.bytes_per_s[level]
        if self.work is None or self.work.per_s is None or not rate:
            return None
        return self.work.per_s / rate

    @property
    def ceiling(self) -> tuple[str, float] | None:
        """The lowest roof over the kernel: (compute or a level, FLOP/s)."""
        roofs = []
        if self.compute.best is not None:
            roofs.append((self.compute.best, "compute"))
        for level in LEVELS:
            bandwidth, intensity = self.memory[level].best, self.intensity(level)
            if bandwidth is not None and intensity is not None:
                roofs.append((bandwidth * intensity, level))
        if self.work is None or not roofs:
            return None
        value, name = min(roofs)
        return name, value

    @property
    def of_ceiling_pct(self) -> float | None:
        """Achieved share of the lowest roof."""
        if self.ceiling is None or self.work is None or self.work.per_s is None:
            return None
        return 100 * self.work.per_s / self.ceiling[1]

    @property
    def bound(self) -> tuple[str | None, str]:
        """compute, memory, balanced, latency or None, and the evidence."""
        sm, memory = self.facts.get(SM_PCT), self.facts.get(MEMORY_PCT)
        if sm is not None and memory is not None:
            shares = f"SM throughput {sm:.1f} %, memory throughput {memory:.1f} % of peak"
            if max(sm, memory) < LATENCY_PCT:
                return "latency", f"{shares}: both under {LATENCY_PCT:.0f} %"
            if abs(sm - memory) < BALANCED_PCT and max(sm, memory) < BUSY_PCT:
                return "balanced", f"{shares}: within {BALANCED_PCT:.0f} points"
            return ("compute" if sm >= memory else "memory"), shares
        if self.ceiling is None or self.of_ceiling_pct is None:
            return None, "neither throughputs nor arithmetic and traffic were recorded"
        name, _ = self.ceiling
        share = f"{self.of_ceiling_pct:.1f} % of the {name} roof"
        if self.of_ceiling_pct < LATENCY_PCT:
            if self.intensity("dram") is None:
                return None, f"{share}; the traffic of device memory was not recorded"
            return "latency", f"{share}: under {LATENCY_PCT:.0f} %"
        return ("compute" if name == "compute" else "memory"), share


def place_kernel(facts: Facts) -> list[Placement]:
    """A placement for each precision that the kernel used, or one without arithmetic."""
    memory = {level: find_memory_peak(facts, level) for level in LEVELS}
    traffic = {level: _traffic(facts, level) for level in LEVELS}
    found: list[Placement] = [
        Placement(facts, w, find_compute_peak(facts, w.precision), memory, traffic)
        for w in flops.count_work(facts)
    ]
    return found or [Placement(facts, None, Peak(None, None, None, None), memory, traffic)]


def _traffic(facts: Facts, level: str) -> float | None:
    """Bytes per second of a level."""
    for name, size in _RATES[level]:
        rate = facts.get(name)
        if rate is not None:
            return rate * size
    total = next((v * s for n, s in _TOTALS[level] if (v := facts.get(n)) is not None), None)
    if total is None and level == "dram":
        parts = [v for n in _DRAM_PARTS if (v := facts.get(n)) is not None]
        total = sum(parts) if len(parts) == len(_DRAM_PARTS) else None
    seconds = facts.seconds
    return total / seconds if total is not None and seconds else None
