"""A model of what a GPU does with a kernel: what a profiler would count, and how long it takes.

A kernel is told as what one of its warps does: accesses by the addresses of its 32 threads, and
instructions. Sectors, wavefronts, conflicts and idle threads are counted from that. Its time is
that of the unit that takes longest, wave of blocks by wave of blocks, and never shorter than the
chain of latencies of one warp: a roofline with occupancy. It is of no real GPU's accuracy, and
nothing in it was fitted to sightline. Times are in cycles until they are in ns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

WARP = 32
SECTOR = 32  # bytes (Nsight Compute, Kernel Profiling Guide, "Memory Tables")
LINE = 128
BANKS, BANK_BYTES = (
    32,
    4,
)  # of shared memory (CUDA C++ Programming Guide, compute capability 5.x on)


@dataclass(frozen=True)
class Gpu:
    """An H100 SXM: what its datasheet and CUDA's tables of compute capability 9.0 say.

    Latencies and the L2's bandwidth are of the order that microbenchmarks find (Luo et al. 2024,
    "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", arXiv:2402.13499).
    """

    sms: int = 132
    clock_hz: float = 1_755_000_000.0
    dram_bytes_per_s: float = 3.352e12
    l2_bytes_per_s: float = 5.5e12
    max_warps: int = 64
    max_blocks: int = 32
    registers: int = 65_536
    shared_bytes: int = 233_472
    shared_reserved: int = 1_024  # by the driver, of each block
    schedulers: int = 4
    start_cycles: int = 1_500
    latency: dict[str, int] = field(
        default_factory=lambda: {"math": 4, "shared": 29, "l1": 33, "l2": 260, "dram": 650}
    )


H100 = Gpu()


@dataclass(frozen=True)
class Access:
    """A load or store of memory that each warp executes `count` times."""

    space: str  # global, local, shared
    op: str  # ld, st
    addresses: Sequence[int]  # bytes, one for each thread
    count: float = 1.0
    in_l1: float = 0.0  # share of its sectors that the L1 holds
    in_l2: float = 0.0  # share of the others that the L2 holds
    waits: float = 0.0  # how often the warp waits for its latency
    size: int = 4  # bytes for each thread
    line: int = 0  # in the program

    @property
    def sectors(self) -> int:
        """Sectors that one execution touches."""
        return len({(a + b) // SECTOR for a in self.addresses for b in (0, self.size - 1)})

    @property
    def ideal_sectors(self) -> int:
        """Sectors that its bytes would fill; threads with the same address share theirs."""
        return max(1, math.ceil(len(set(self.addresses)) * self.size / SECTOR))

    @property
    def wavefronts(self) -> int:
        """Passes through the L1's data stage: lines, or the most words of one bank."""
        if self.space != "shared":
            return len({a // LINE for a in self.addresses})
        banks: dict[int, set[int]] = {}
        for address in self.addresses:
            word = address // BANK_BYTES
            banks.setdefault(word % BANKS, set()).add(word)
        return max(map(len, banks.values()))


@dataclass(frozen=True)
class Math:
    """Instructions of one kind, of which each warp executes `count`."""

    kind: str  # fma, add, mul, other
    count: float
    waits: float = 0.0  # how many of them wait for the one before
    threads: float = WARP  # that take part, on average


@dataclass(frozen=True)
class Program:
    """A kernel and how it is launched."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int  # as ptxas reports them for sm_90
    parts: Sequence[Access | Math]
    shared_bytes: int = 0
    barriers: float = 0.0  # that a warp waits at
    unique_bytes: float | None = None  # of device memory that must be read at least

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def warps(self) -> int:
        """Of a block."""
        return math.ceil(math.prod(self.block) / WARP)

    @property
    def accesses(self) -> list[Access]:
        return [p for p in self.parts if isinstance(p, Access)]

    @property
    def instructions(self) -> float:
        """Of a warp."""
        return sum(p.count for p in self.parts) + self.barriers


@dataclass(frozen=True)
class Outcome:
    """What a kernel takes: cycles in all, and how many each unit was busy (of its own peak)."""

    program: Program
    gpu: Gpu
    cycles: float
    resident: int  # blocks that fit a multiprocessor
    active_warps: float  # of a multiprocessor, on average
    busy: dict[str, float]
    waits: dict[str, float]  # cycles of a warp's life, by stall reason

    @property
    def ns(self) -> float:
        return self.cycles / self.gpu.clock_hz * 1e9

    @property
    def warps(self) -> int:
        return self.program.blocks * self.program.warps

    def count(self, space: str, op: str, what: str) -> float:
        """Sectors, wavefronts or instructions of a kind of access, over all warps."""
        return self.warps * sum(
            a.count * (1 if what == "instructions" else getattr(a, what))
            for a in self.program.accesses
            if a.space == space and a.op == op
        )


def fit_blocks(program: Program, gpu: Gpu) -> int:
    """How many blocks a multiprocessor holds."""
    by_registers = gpu.registers // (program.warps * WARP * (-(-program.registers // 8) * 8))
    shared = program.shared_bytes + gpu.shared_reserved
    return min(
        gpu.max_blocks, gpu.max_warps // program.warps, by_registers, gpu.shared_bytes // shared
    )


def run_kernel(program: Program, gpu: Gpu = H100) -> Outcome:
    """What the kernel takes, wave by wave."""
    resident = fit_blocks(program, gpu)
    per_wave = resident * gpu.sms
    cycles, held = float(gpu.start_cycles), 0.0
    left = program.blocks
    chain, reasons = _chain(program, gpu)
    while left > 0:
        blocks = min(left, per_wave)
        taken = max(chain, *(b for b in _demands(program, gpu, blocks).values()))
        cycles += taken
        held += taken * blocks * program.warps
        left -= blocks
    # A profiler's throughputs are means over all multiprocessors, not those of the fullest.
    demands = _demands(program, gpu, program.blocks, spread=True)
    busy = {unit: need / cycles for unit, need in demands.items()}
    life = held / (program.blocks * program.warps)
    # What a warp waits beyond its own chain, it waits for the unit that is busiest.
    worst = max(demands, key=lambda unit: demands[unit])
    reasons[_REASONS[worst]] = reasons.get(_REASONS[worst], 0.0) + max(0.0, life - chain)
    return Outcome(program, gpu, cycles, resident, held / gpu.sms / cycles, busy, reasons)


_REASONS = {
    "issue": "not_selected",
    "fma": "math_pipe_throttle",
    "shared": "mio_throttle",
    "l1": "lg_throttle",
    "l2": "long_scoreboard",
    "dram": "long_scoreboard",
}


def _chain(program: Program, gpu: Gpu) -> tuple[float, dict[str, float]]:
    """How long a warp takes that has the GPU to itself, and by reason of waiting."""
    reasons = {"selected": program.instructions}
    for part in program.parts:
        if isinstance(part, Math):
            reasons["wait"] = reasons.get("wait", 0.0) + part.waits * (gpu.latency["math"] - 1)
        elif part.space == "shared":
            cycles = part.waits * (gpu.latency["shared"] + part.wavefronts - 1)
            reasons["short_scoreboard"] = reasons.get("short_scoreboard", 0.0) + cycles
        else:
            beyond = 1 - part.in_l1
            latency = gpu.latency["l1"]
            latency += beyond * (gpu.latency["l2"] - gpu.latency["l1"])
            latency += beyond * (1 - part.in_l2) * (gpu.latency["dram"] - gpu.latency["l2"])
            reasons["long_scoreboard"] = reasons.get("long_scoreboard", 0.0) + part.waits * latency
    if program.barriers:
        reasons["barrier"] = program.barriers * gpu.latency["shared"]
    return sum(reasons.values()), reasons


def _demands(program: Program, gpu: Gpu, blocks: int, *, spread: bool = False) -> dict[str, float]:
    """Cycles that each unit needs for so many blocks: on the fullest SM, or the mean."""
    warps = (blocks / gpu.sms if spread else math.ceil(blocks / gpu.sms)) * program.warps
    all_warps = blocks * program.warps
    fma = sum(p.count for p in program.parts if isinstance(p, Math) and p.kind != "other")
    shared = sum(a.count * a.wavefronts for a in program.accesses if a.space == "shared")
    others = sum(a.count * a.wavefronts for a in program.accesses if a.space != "shared")
    l2, dram = (all_warps * n * SECTOR for n in _sectors_beyond(program))
    return {
        "issue": warps * program.instructions / gpu.schedulers,
        "fma": warps * fma / gpu.schedulers,
        "shared": warps * shared,
        "l1": warps * others,
        "l2": l2 / gpu.l2_bytes_per_s * gpu.clock_hz,
        "dram": dram / gpu.dram_bytes_per_s * gpu.clock_hz,
    }


def _sectors_beyond(program: Program) -> tuple[float, float]:
    """Sectors of a warp that reach the L2, and the device memory."""
    l2 = dram = 0.0
    for access in program.accesses:
        if access.space != "shared":
            beyond = access.count * access.sectors * (1 - access.in_l1)
            l2 += beyond
            dram += beyond * (1 - access.in_l2)
    return l2, dram
