"""A profiled kernel, and for how much of its time each unit is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sightline.roofline.facts import Facts
from sightline.roofline.placement import LATENCY_PCT, MEMORY_PCT, SM_PCT

# Nsight Compute's Speed of Light: above 80 % of a unit's peak, the kernel is at that unit's limit,
# and only work that another unit does instead makes it faster.
LIMIT_PCT = 80.0
# How busy each unit is, % of its peak: the throughputs of Speed of Light and what it breaks them
# down to (Nsight Compute, Kernel Profiling Guide, "Metrics Decoder"). Where a report has no
# throughput, the largest of its parts that was counted says that the unit is at least so busy.
UNITS = {
    "the SM": (SM_PCT,),
    "the L1": (
        "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
        "l1tex__throughput.avg.pct_of_peak_sustained_active",
        "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
    ),
    "the L2": (
        "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    ),
    "device memory": (
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    ),
}
SM, L1, L2, DRAM = UNITS
_ENDINGS = ("avg.pct_of_peak_sustained_elapsed", "avg.pct_of_peak_sustained_active")
_COUNTED = {
    "alu": "pipe_{}_cycles_active",
    "fma": "pipe_{}_cycles_active",
    "fmaheavy": "pipe_{}_cycles_active",
    "fmalite": "pipe_{}_cycles_active",
    "fp64": "pipe_{}_cycles_active",
    "fp16": "pipe_{}_cycles_active",
    "tensor": "pipe_{}_cycles_active",
    "shared": "pipe_{}_cycles_active",
    "lsu": "inst_executed_pipe_{}",
    "xu": "inst_executed_pipe_{}",
    "tex": "inst_executed_pipe_{}",
    "adu": "inst_executed_pipe_{}",
    "cbu": "inst_executed_pipe_{}",
    "uniform": "inst_executed_pipe_{}",
    "ipa": "inst_executed_pipe_{}",
}
# What the SM's throughput is made of: its pipes, by busy cycles where the profiler counts them,
# else by issued instructions; the slots in which it issues; the constant cache.
PIPES = {
    pipe: tuple(f"sm__{metric.format(pipe)}.{ending}" for ending in _ENDINGS)
    for pipe, metric in _COUNTED.items()
}
ISSUE, CONSTANTS = "issue", "constants"
PARTS = PIPES | {
    CONSTANTS: (f"idc__request_cycles_active.{_ENDINGS[0]}",),
    ISSUE: (
        "sm__inst_issued.avg.pct_of_peak_sustained_elapsed",
        "sm__issue_active.avg.pct_of_peak_sustained_elapsed",
    ),
}
# Operations of the XU pipe (Kernel Profiling Guide, "Pipelines"): special functions, conversions
# between integer and floating point and of 64 bits, and some of bits.
XU = ("MUFU", "I2F", "F2I", "F2F", "FRND", "I2I", "POPC", "FLO", "BREV")
# Rules that say that warps wait, not for what: what a unit or a line does to them explains these.
WAITS = ("ncu-stall", "ncu-issue-slots", "ncu-latency")
WAVES_PER_SM = "launch__waves_per_multiprocessor"
EXECUTED = ("smsp__inst_executed.sum", "sm__inst_executed.sum")  # warp instructions
METRICS = (
    SM_PCT,
    MEMORY_PCT,
    WAVES_PER_SM,
    *(name for names in (*UNITS.values(), *PARTS.values()) for name in names),
)


@dataclass(frozen=True)
class Limit:
    """A unit, and for how much of the kernel's time it is needed, %."""

    unit: str
    pct: float


@dataclass(frozen=True)
class HotLine:
    """The source line with most of a kernel's samples, or of some of its instructions.

    Its text is there where the report carries the source.
    """

    file: str
    line: int
    share_pct: float
    text: str | None
    of: str = "of the samples"

    def quote(self) -> str:
        """The line for a person, short enough for one line of a screen."""
        place = f"{self.file.rsplit('/', 1)[-1]}:{self.line}"
        if not self.text:
            return place
        text = self.text if len(self.text) <= 60 else f"{self.text[:59]}…"
        return f"{place}  {text}"


@dataclass(frozen=True)
class Case:
    """One profiled kernel as the rules see it."""

    facts: Facts
    time_ns: float  # in the program where a timeline was given, else under the profiler
    hot_line: HotLine | None = None

    @property
    def kernel_id(self) -> int:
        """Its number in the run."""
        return int(self.facts.row["kernel_id"])

    def get(self, *names: str) -> float | None:
        """The first of these metrics that was measured."""
        return self.facts.get(*names)

    def use(self, unit: str) -> float | None:
        """How busy a unit, or a part of the SM, is, % of its peak."""
        return self.get(*(UNITS.get(unit) or PARTS[unit]))

    @property
    def light(self) -> float | None:
        """The highest of the throughputs, % of peak: SM, memory, and the L1.

        Memory's leaves out the L1's tags, which many sectors an access keep busy. The L1's is of
        the time in which it works, and counts where every SM has had work for a wave.
        """
        names = UNITS if self.get(MEMORY_PCT) is None else [L1] if self._fills_sms else []
        parts = [self.use(unit) for unit in names]
        found = [v for v in (self.get(SM_PCT), self.get(MEMORY_PCT), *parts) if v is not None]
        return max(found) if found else None

    @property
    def _fills_sms(self) -> bool:
        """Whether there are blocks for every SM."""
        return (self.get(WAVES_PER_SM) or 0.0) >= 1.0

    @property
    def at_limit(self) -> bool:
        """Whether one of the two is as busy as it gets."""
        return self.light is not None and self.light >= LIMIT_PCT

    @property
    def waits(self) -> bool:
        """Whether nothing is so busy that the kernel is bound by it, or nobody measured that."""
        return self.light is None or self.light < LATENCY_PCT

    @cached_property
    def busiest(self) -> Limit | None:
        """The unit that is busiest; None where no throughput was measured."""
        found = [Limit(u, pct) for u in UNITS if (pct := self.use(u)) is not None]
        return max(found, key=lambda limit: limit.pct, default=None)

    def find_next_limit(self, relieved: Mapping[str, float]) -> Limit | None:
        """The unit that limits once each of these units has so much less of its work, % of it.

        What it still needs, % of the kernel's time, is as short as the kernel gets. Where parts of
        the SM are relieved, it is as busy as its busiest part is then. None where no throughput
        was measured.
        """
        names = [*UNITS]
        if any(p in relieved for p in PARTS) and any(self.use(p) is not None for p in PARTS):
            names = [*(u for u in UNITS if u != SM), *PARTS]
        left = [
            Limit(_NAMES.get(name, name), used * (1 - relieved.get(name, 0.0) / 100))
            for name in names
            if (used := self.use(name)) is not None
        ]
        is_memory = bool(set(relieved) & {L1, L2, DRAM})
        if not is_memory and (memory := self.get(MEMORY_PCT)) is not None:
            left.append(Limit("memory", memory))
        return max(left, key=lambda limit: limit.pct, default=None)

    @property
    def headroom(self) -> float:
        """What is left to the nearest limit, %; all of it where that was not measured."""
        return 100.0 if self.light is None else max(0.0, 100.0 - self.light)

    def count_opcodes(self, *starts: str) -> float:
        """Warp instructions whose operation starts so, with or without modifiers."""
        return sum(n for opcode, n in self.facts.opcodes.items() if opcode.startswith(starts))

    @cached_property
    def instructions(self) -> float:
        """Warp instructions that the kernel executed, as far as they were counted by operation."""
        return sum(self.facts.opcodes.values())


_NAMES = {pipe: f"the {pipe} pipe" for pipe in PIPES} | {
    ISSUE: "instruction issue",
    CONSTANTS: "the constant cache",
}


def name_unit(unit: str) -> str:
    """A unit or a part of the SM, in a sentence."""
    return _NAMES.get(unit, unit)
