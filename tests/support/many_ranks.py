"""Jobs of many ranks with planted causes, played event by event; shares nothing with `src/`.

A step is a list of layers: the host's gap, kernels, then a collective: an all-reduce of each group
of eight ranks (tensor parallel), an all-to-all of the same ranks (experts), kernels of the experts
and another all-reduce, an all-reduce of every eighth rank (data parallel). A collective ends at
once for all, after its last rank has come and its bytes have moved. The host waits for what it
launched before it launches more, but for its gaps. What a cause costs is the length of the job with
it, less that of the same job, with the same dice, without.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

GROUP = 8
EPOCH_NS = 1_700_000_000_000_000_000
# What each layer ends with, its bytes, and how long they take, ns.
LAYERS = (
    ("allreduce", "tp", 8 << 20, 120_000),
    ("all_to_all", "ep", 4 << 20, 90_000),
    ("allreduce", "tp", 8 << 20, 120_000),
    ("allreduce", "dp", 64 << 20, 400_000),
)
AFTER_EXPERTS = 2  # the layer whose kernels are those of experts
HOST, CLOCK, EXPERTS, LINK = "host late", "slower clock", "expert imbalance", "slow link"


@dataclass(frozen=True)
class Cause:
    """`rank` is late by `size` ns a step (host), or that much slower (a factor, of the others)."""

    kind: str
    rank: int
    size: float


@dataclass
class Played:
    """Every kernel's start and end per rank, ns of true time: [kernel, rank]."""

    start: np.ndarray
    end: np.ndarray
    collective: list[int | None]  # index in LAYERS, for each kernel

    @property
    def length_ns(self) -> int:
        return int(self.end.max() - self.start.min())


@dataclass(frozen=True)
class Program:
    """What all ranks do: so many steps, with so many kernels before each collective."""

    ranks: int
    steps: int = 20
    kernels: int = 4
    kernel_ns: int = 60_000
    seed: int = 0
    causes: tuple[Cause, ...] = ()
    offset_ns: float = 0.0  # clocks are apart by up to so much, either way
    drift_ppm: float = 0.0

    def clocks(self) -> tuple[np.ndarray, np.ndarray]:
        """What each rank's clock adds to the true time: an offset (ns) and a rate."""
        dice = np.random.default_rng([self.seed, 1])
        return (
            dice.uniform(-self.offset_ns, self.offset_ns, self.ranks).round(),
            dice.uniform(-self.drift_ppm, self.drift_ppm, self.ranks) * 1e-6,
        )

    def play(self, causes: Sequence[Cause] | None = None) -> Played:
        """The job with its causes, or with others."""
        dice = np.random.default_rng([self.seed, 2])
        causes = self.causes if causes is None else causes
        now = dice.integers(0, 20_000, self.ranks)
        starts, ends, collective = [], [], []
        for _ in range(self.steps):
            for layer, (_, kind, _, transfer) in enumerate(LAYERS):
                now = now + 20_000 + dice.exponential(2_000, self.ranks).astype(np.int64)
                for cause in causes:
                    if cause.kind == HOST and layer == 0:
                        now[cause.rank] += int(cause.size)
                for _ in range(self.kernels):
                    long = self.kernel_ns * dice.normal(1, 0.01, self.ranks).clip(0.9, 1.1)
                    for cause in causes:
                        is_expert = cause.kind == EXPERTS and layer == AFTER_EXPERTS
                        if cause.kind == CLOCK or is_expert:
                            long[cause.rank] *= 1 + cause.size
                    starts.append(now)
                    now = now + long.astype(np.int64)
                    ends.append(now)
                    collective.append(None)
                    now = now + 1_000
                group = self.group_of(kind)
                last = np.zeros(group.max() + 1, np.int64)
                np.maximum.at(last, group, now)
                members = np.bincount(group)
                # Each rank's share goes to the others: one rank has none (nccl-tests).
                moved = 5_000 + transfer * (members - 1) // members
                for cause in causes:
                    if cause.kind == LINK and kind != "dp":
                        moved[group[cause.rank]] += int(transfer * cause.size)
                starts.append(now)
                now = last[group] + moved[group] + dice.exponential(1_000, self.ranks).astype(int)
                ends.append(now)
                collective.append(layer)
        return Played(np.array(starts), np.array(ends), collective)

    def group_of(self, kind: str) -> np.ndarray:
        """The number of each rank's group."""
        every = np.arange(self.ranks)
        return every % GROUP if kind == "dp" else every // GROUP

    def measure_cost(self, cause: Cause) -> int:
        """How much longer the job takes with the cause, beside all its others, ns."""
        others = [c for c in self.causes if c != cause]
        return self.play().length_ns - self.play(others).length_ns


def write_ranks(program: Program, folder: Path, *, filler: int = 0) -> Iterator[Path]:
    """A Kineto trace of each rank, on its own clock; `filler` operators for each kernel."""
    played = program.play()
    offsets, rates = program.clocks()
    folder.mkdir(parents=True, exist_ok=True)
    groups = {kind: program.group_of(kind) for kind in ("tp", "ep", "dp")}
    for rank in range(program.ranks):
        start, end = (
            EPOCH_NS + times + int(offsets[rank]) + (times * rates[rank]).round().astype(np.int64)
            for times in (played.start[:, rank], played.end[:, rank])
        )
        path = folder / f"rank_{rank}.json.gz"
        with gzip.open(path, "wt", compresslevel=1) as file:
            told = {"backend": "nccl", "rank": rank, "world_size": program.ranks}
            gpu = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85899345920}
            head = {"schemaVersion": 1, "distributedInfo": told, "deviceProperties": [gpu]}
            file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
            file.write(",\n".join(_write_events(program, played, groups, rank, start, end, filler)))
            file.write("\n]}")
        yield path


def _write_events(
    program: Program,
    played: Played,
    groups: dict[str, np.ndarray],
    rank: int,
    start: np.ndarray,
    end: np.ndarray,
    filler: int,
) -> Iterator[str]:
    told = {}
    for layer, (op, kind, size, _) in enumerate(LAYERS):
        ranks = np.flatnonzero(groups[kind] == groups[kind][rank])
        elements = received = size // 4
        if op == "all_to_all":  # an expert with more to do was sent more tokens
            loads = [c.size for c in program.causes if c.kind == EXPERTS and c.rank == rank]
            received = int(elements * (1 + sum(loads)))
        name = f"{kind}{groups[kind][rank]}"
        told[layer] = (
            f'"Collective name": "{op}", "dtype": "Float", "Process Group Name": "{name}", '
            f'"Process Group Ranks": "{ranks.tolist()}", "Group size": {len(ranks)}, '
            f'"In msg nelems": {elements}, "Out msg nelems": {received}'
        )
    launched = ended = 0
    for n, (begin, stop, layer) in enumerate(
        zip(start.tolist(), end.tolist(), played.collective, strict=True)
    ):
        at, long = f"{begin // 1000}.{begin % 1000:03d}", f"{(stop - begin) / 1000:.3f}"
        name = "gemm" if layer is None else f"ncclDevKernel_{LAYERS[layer][0]}"
        more = "" if layer is None else ", " + told[layer]
        yield (
            f'{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, "ts": {at}, '
            f'"dur": {long}, "args": {{"device": 0, "stream": 7, "correlation": {n}{more}}}}}'
        )
        called = begin - 9_000
        waited = min(called, ended) - launched
        if waited > 0:
            yield (
                '{"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 9, '
                f'"tid": 9, "ts": {launched // 1000}.{launched % 1000:03d}, '
                f'"dur": {waited / 1000:.3f}, "args": {{}}}}'
            )
        launched, ended = called + 4_000, stop
        yield (
            '{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, '
            f'"ts": {called // 1000}.{called % 1000:03d}, "dur": 4, '
            f'"args": {{"correlation": {n}}}}}'
        )
        for k in range(filler):
            called = begin - 9_500 + k
            yield (
                '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, '
                f'"ts": {called // 1000}.{called % 1000:03d}, "dur": 5, "args": {{}}}}'
            )
