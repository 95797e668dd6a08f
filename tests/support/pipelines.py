"""Pipelines of several stages, played action by action; shares nothing with `src/`.

Rank = stage × replicas + replica. A stage does its actions in the order of its schedule: F, B
(which includes W unless the schedule splits it), W. It waits for what it receives; nobody waits for
what is sent. Schedules: GPipe (Huang et al. 2019), 1F1B (PipeDream-Flush, Narayanan et al. 2021)
and interleaved 1F1B (the same, section 2.2), ZB-H1 (Qi et al. 2023). After a step each stage's
replicas reduce their gradients, then all ranks the norm.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

EPOCH_NS = 1_700_000_000_000_000_000
GPIPE, ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE = "GPipe", "1F1B", "interleaved 1F1B", "zero-bubble"
Action = tuple[str, int, int]  # F, B or W; chunk; micro-batch


@dataclass(frozen=True)
class Kernel:
    """One kernel, ns of true time; `peer` of a send or receive, `members` of a collective.

    `ready` is when all that it needs on its own rank was done, where its stream was busy longer.
    """

    name: str
    start: int
    end: int
    stream: int
    peer: int = -1
    members: tuple[int, ...] = ()
    ready: int | None = None


@dataclass(frozen=True)
class Pipeline:
    """What is played; `slow_stage` computes by `slow` longer, `late_rank` by `late_ns` a step.

    Transfers between stage `slow_link` and the one after it take `link_factor` times as long.
    """

    stages: int
    replicas: int
    batches: int
    schedule: str
    steps: int = 3
    chunks: int = 1
    forward_ns: int = 400_000
    transfer_ns: int = 30_000
    seed: int = 0
    slow_stage: int | None = None
    slow: float = 0.0
    late_rank: int | None = None
    late_ns: int = 0
    slow_link: int | None = None
    link_factor: int = 10
    offset_ns: float = 0.0
    waits: bool = True  # False: what is received was always there before

    @property
    def ranks(self) -> int:
        return self.stages * self.replicas

    def play(self) -> list[list[Kernel]]:
        """Each rank's kernels."""
        dice = np.random.default_rng([self.seed, 3])
        done: list[list[Kernel]] = [[] for _ in range(self.ranks)]
        now = [int(n) for n in dice.integers(0, 20_000, self.ranks)]
        for _ in range(self.steps):
            for replica in range(self.replicas):
                self._play_step(done, now, replica)
            for stage in range(self.stages):
                mine = range(stage * self.replicas, (stage + 1) * self.replicas)
                self._reduce(done, now, tuple(mine), 200_000)
            self._reduce(done, now, tuple(range(self.ranks)), 20_000)
        return done

    def _reduce(
        self, done: list[list[Kernel]], now: list[int], members: tuple[int, ...], long: int
    ) -> None:
        if len(members) < 2:
            return
        end = max(now[rank] for rank in members) + long
        for rank in members:
            done[rank].append(Kernel("allreduce", now[rank], end, 7, members=members))
            now[rank] = end + 3_000

    def _play_step(self, done: list[list[Kernel]], now: list[int], replica: int) -> None:
        """All actions of one replica's stages; a message that is not sent yet is waited for."""
        todo = [list_actions(self, stage) for stage in range(self.stages)]
        place = [0] * self.stages
        sent: dict[Action, tuple[int, int]] = {}  # when, by whom
        last = self.stages * self.chunks - 1
        if self.late_rank is not None and self.late_rank % self.replicas == replica:
            now[self.late_rank] += self.late_ns
        while any(at < len(mine) for at, mine in zip(place, todo, strict=True)):
            for stage in range(self.stages):
                rank = stage * self.replicas + replica
                while place[stage] < len(todo[stage]):
                    kind, chunk, batch = todo[stage][place[stage]]
                    virtual = chunk * self.stages + stage
                    step = {"F": -1, "B": 1}.get(kind, 0)
                    need = (kind, virtual + step, batch)
                    if step and 0 <= need[1] <= last:
                        if need not in sent:
                            break
                        self._receive(done, now, rank, sent[need])
                    # The factor is drawn by what is done, so that other causes leave it alone.
                    long = self.forward_ns // self.chunks * (1 if kind == "F" or self.splits else 2)
                    of = np.random.default_rng([self.seed, replica, virtual, batch, ord(kind)])
                    long = int(long * of.normal(1, 0.005))
                    if stage == self.slow_stage:
                        long = int(long * (1 + self.slow))
                    start = now[rank]
                    for part in range(4):
                        piece = (start + part * long // 4, start + (part + 1) * long // 4)
                        done[rank].append(Kernel("gemm", *piece, 7))
                    now[rank] = start + long
                    if step and 0 <= virtual - step <= last:
                        sent[kind, virtual, batch] = (now[rank] + 1_000, rank)
                    now[rank] += 2_000
                    place[stage] += 1

    @property
    def splits(self) -> bool:
        return self.schedule == ZERO_BUBBLE

    def _receive(
        self, done: list[list[Kernel]], now: list[int], rank: int, message: tuple[int, int]
    ) -> None:
        """Both ends are there until the data has moved; the receiver goes on then."""
        posted, sender = message
        sends = (k for k in reversed(done[sender]) if k.name == "send" and k.peer == rank)
        before = next(sends, None)
        start = max(posted, before.end if before else 0)
        there = max(start, now[rank]) if self.waits else now[rank]
        stage = min(sender, rank) // self.replicas
        end = there + self.transfer_ns * (self.link_factor if stage == self.slow_link else 1)
        began = min(start, there)
        done[sender].append(
            Kernel("send", began, end, 20 + 2 * rank, rank, ready=min(posted, began))
        )
        done[rank].append(Kernel("recv", now[rank], end, 21 + 2 * sender, sender))
        now[rank] = end + 2_000

    def length_ns(self) -> int:
        """First begin to last end of any rank."""
        kernels = [kernel for mine in self.play() for kernel in mine]
        return max(k.end for k in kernels) - min(k.start for k in kernels)

    def measure_cost(self, **without: object) -> int:
        """How much longer the job takes than the same job with some of it otherwise, ns."""
        return self.length_ns() - replace(self, **without).length_ns()  # type: ignore[arg-type]


def list_actions(of: Pipeline, stage: int) -> list[Action]:
    """What one stage does in one step, in order."""
    p, m, v = of.stages, of.batches, of.chunks
    if of.schedule == GPIPE:
        return [("F", 0, k) for k in range(m)] + [("B", 0, k) for k in range(m)]
    if of.schedule == INTERLEAVED:
        warm, total = min(m * v, 2 * (p - stage - 1) + (v - 1) * p), m * v
        forward = [("F", k % (p * v) // p, k // (p * v) * p + k % p) for k in range(total)]
        backward = [("B", v - 1 - chunk, batch) for _, chunk, batch in forward]
    else:
        warm, total = min(m, p - stage - 1), m
        forward = [("F", 0, k) for k in range(m)]
        backward = [("B", 0, k) for k in range(m)]
    made = forward[:warm]
    weights = 0
    for k in range(total):
        made += forward[warm + k : warm + k + 1]
        made.append(backward[k])
        # The weights' gradients wait as long as others' inputs' matter more.
        if of.schedule == ZERO_BUBBLE and (k >= stage):
            made.append(("W", 0, weights))
            weights += 1
    return made + [("W", 0, k) for k in range(weights, m if of.schedule == ZERO_BUBBLE else 0)]


def write_pipeline(of: Pipeline, folder: Path) -> Iterator[Path]:
    """A Kineto trace of each rank, on its own clock."""
    folder.mkdir(parents=True, exist_ok=True)
    away = np.random.default_rng([of.seed, 1]).uniform(-of.offset_ns, of.offset_ns, of.ranks)
    for rank, kernels in enumerate(of.play()):
        told = {"backend": "nccl", "rank": rank, "world_size": of.ranks}
        epoch = EPOCH_NS + int(away[rank])
        kernels = sorted(kernels, key=lambda k: k.start)
        events = [*_write_calls(kernels, epoch)]
        events += [_write_kernel(n, rank, kernel, epoch) for n, kernel in enumerate(kernels)]
        path = folder / f"rank_{rank}.json.gz"
        with gzip.open(path, "wt", compresslevel=1) as file:
            gpu = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85899345920}
            head = {"schemaVersion": 1, "distributedInfo": told, "deviceProperties": [gpu]}
            file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(events) + "\n]}")
        yield path


def _write_calls(kernels: list[Kernel], epoch: int) -> Iterator[str]:
    """The host asks for everything in the order in which it can begin, a little before.

    It waits for what it asked for, and asks for more; what it is late by it does not wait.
    """
    asked = [(k.start if k.ready is None else k.ready) - 9_000 for k in kernels]
    free = ended = 0
    for at, number in sorted(zip(asked, range(len(kernels)), strict=True)):
        waited = min(at, ended) - free
        if waited > 0:
            yield _write_call("cudaStreamSynchronize", epoch + free, waited, {})
        yield _write_call("cudaLaunchKernel", epoch + at, 500, {"correlation": number})
        free, ended = at + 500, max(ended, kernels[number].end)


def _write_call(name: str, at: int, long: int, args: dict[str, int]) -> str:
    return (
        f'{{"ph": "X", "cat": "cuda_runtime", "name": "{name}", "pid": 9, "tid": 9, '
        f'"ts": {at // 1000}.{at % 1000:03d}, "dur": {long // 1000}.{long % 1000:03d}, '
        f'"args": {json.dumps(args)}}}'
    )


def _write_kernel(number: int, rank: int, kernel: Kernel, epoch: int) -> str:
    args: dict[str, object] = {"device": 0, "stream": kernel.stream, "correlation": number}
    name = kernel.name
    if kernel.name != "gemm":
        name = "ncclDevKernel_SendRecv" if kernel.peer >= 0 else "ncclDevKernel_AllReduce_Sum_f32"
        ranks = list(kernel.members or sorted((rank, kernel.peer)))
        size = 1 << 20
        args |= {"Collective name": kernel.name, "dtype": "Float", "Group size": len(ranks)}
        args |= {"Process Group Name": "g" + "_".join(map(str, ranks)), "In msg nelems": size}
        args |= {"Process Group Ranks": str(ranks), "Out msg nelems": size}
        if kernel.peer >= 0:
            args["Dst Rank" if kernel.name == "send" else "Src Rank"] = kernel.peer
    start, long = epoch + kernel.start, kernel.end - kernel.start
    head = f'{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": {kernel.stream}, '
    return (
        head + f'"ts": {start // 1000}.{start % 1000:03d}, '
        f'"dur": {long // 1000}.{long % 1000:03d}, "args": {json.dumps(args)}}}'
    )
