"""The exact truth about a simulated run. All times in integer ns from the run's start.

Nothing here is clever, on purpose. The breakdown of a device's window is painted: one byte per
cell of time, the less important classes first and the more important ones over them, and then
the bytes are counted. ``tally`` is a second way to the same numbers that shares no code with the
first: it walks through the moments at which an operation starts or ends.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from .causes import parts_of
from .model import DeviceOp, RankRun, Run

IDLE, COPY, COMMUNICATION, COMPUTE = range(4)  # a later one covers an earlier one
PAINT_CELLS = 1 << 24  # cells painted at once, which bounds the memory
_IDLE_CELLS = re.compile(b"\\x00+")


@dataclass(frozen=True)
class Breakdown:
    """Where the window of a device went; the four parts sum to the window, in ns."""

    start_ns: int
    end_ns: int
    compute_ns: int
    exposed_comm_ns: int
    exposed_copy_ns: int
    idle_ns: int
    gaps: tuple[tuple[int, int], ...]  # [start, end) of each stretch of idle time

    @property
    def window_ns(self) -> int:
        """Return the length of the window."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Gap:
    """One stretch in which the device ran nothing, and why."""

    start_ns: int
    end_ns: int
    parts: dict[str, int]  # what it went to, in ns
    binding: str  # the constraint that set the start of the next operation
    next_op: DeviceOp  # the operation that ended the gap

    @property
    def length_ns(self) -> int:
        """Return the length of the gap."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Sums:
    """How often something of one name happened and how long it took."""

    instances: int
    total_ns: int
    min_ns: int
    max_ns: int
    bytes: int = 0


@dataclass(frozen=True)
class DeviceTruth:
    """The truth about one device of one rank."""

    rank: int
    device: int
    breakdown: Breakdown
    kernels: dict[str, Sums]
    copies: dict[str, Sums]  # copies and fills
    gaps: tuple[Gap, ...]

    def idle_by_cause(self) -> dict[str, int]:
        """Return the idle ns of each cause."""
        sums: dict[str, int] = {}
        for gap in self.gaps:
            for cause, part_ns in gap.parts.items():
                sums[cause] = sums.get(cause, 0) + part_ns
        return sums

    def share_pct(self, part_ns: int) -> float:
        """Return a part of the window in percent of the window."""
        return 100 * part_ns / self.breakdown.window_ns


@dataclass(frozen=True)
class RankTruth:
    """The truth about one rank. A rank without device operations has no devices."""

    rank: int
    devices: dict[int, DeviceTruth]
    api_calls: dict[str, Sums]  # recorded runtime and driver calls, by CUDA's names
    steps: tuple[tuple[int, int, int], ...]  # (number, start_ns, end_ns)


@dataclass(frozen=True)
class CollectiveTruth:
    """One collective over all its ranks."""

    seq: int
    name: str
    starts_ns: dict[int, int]  # rank to the kernel's start
    end_ns: int  # the same on all ranks

    @property
    def transfer_ns(self) -> int:
        """Return how long the collective took once all ranks had come."""
        return self.end_ns - max(self.starts_ns.values())

    def waiting_ns(self, rank: int) -> int:
        """Return how long a rank's kernel waited for the last rank."""
        return max(self.starts_ns.values()) - self.starts_ns[rank]


@dataclass(frozen=True)
class RunTruth:
    """The truth about a run."""

    name: str
    planted: str
    ranks: dict[int, RankTruth]
    collectives: tuple[CollectiveTruth, ...]

    def device(self, rank: int = 0, device: int | None = None) -> DeviceTruth:
        """Return the truth about a device; default: the rank's first."""
        devices = self.ranks[rank].devices
        return devices[min(devices) if device is None else device]


def class_of(op: DeviceOp) -> int:
    """Return COMPUTE, COMMUNICATION or COPY."""
    if op.kind in ("memcpy", "memset"):
        return COPY
    return COMPUTE if op.collective is None else COMMUNICATION


def paint(ops: list[DeviceOp], grain_ns: int) -> Breakdown:
    """Break a window down by painting one byte per ``grain_ns`` of it."""
    start = min(op.start_ns for op in ops)
    end = max(op.end_ns for op in ops)
    counts = [0, 0, 0, 0]
    gaps: list[tuple[int, int]] = []
    layers = [[op for op in ops if class_of(op) == c] for c in (COPY, COMMUNICATION, COMPUTE)]
    for left in range(start, end, PAINT_CELLS * grain_ns):
        right = min(left + PAINT_CELLS * grain_ns, end)
        cells = bytearray((right - left) // grain_ns)
        for color, layer in zip((COPY, COMMUNICATION, COMPUTE), layers, strict=True):
            for op in layer:
                first = (max(op.start_ns, left) - left) // grain_ns
                last = (min(op.end_ns, right) - left) // grain_ns
                if last > first:
                    cells[first:last] = bytes([color]) * (last - first)
        for color in range(4):
            counts[color] += grain_ns * cells.count(color)
        for match in _IDLE_CELLS.finditer(cells):
            a, b = left + grain_ns * match.start(), left + grain_ns * match.end()
            if gaps and gaps[-1][1] == a:  # goes on from the part painted before
                gaps[-1] = (gaps[-1][0], b)
            else:
                gaps.append((a, b))
    return Breakdown(
        start, end, counts[COMPUTE], counts[COMMUNICATION], counts[COPY], counts[IDLE], tuple(gaps)
    )


def tally(ops: list[DeviceOp]) -> Breakdown:
    """Break a window down by walking through its moments of change, counting what runs."""
    changes: dict[int, list[tuple[int, int]]] = {}
    for op in ops:
        changes.setdefault(op.start_ns, []).append((class_of(op), 1))
        changes.setdefault(op.end_ns, []).append((class_of(op), -1))
    moments = sorted(changes)
    running = [0, 0, 0, 0]
    spent = [0, 0, 0, 0]
    gaps: list[tuple[int, int]] = []
    for here, there in itertools.pairwise(moments):
        for which, change in changes[here]:
            running[which] += change
        busy = [c for c in (COMPUTE, COMMUNICATION, COPY) if running[c]]
        spent[busy[0] if busy else IDLE] += there - here
        if not busy:
            gaps.append((here, there))
    return Breakdown(
        moments[0],
        moments[-1],
        spent[COMPUTE],
        spent[COMMUNICATION],
        spent[COPY],
        spent[IDLE],
        tuple(gaps),
    )


def sums_by_name(things: Iterable[tuple[str, int, int]]) -> dict[str, Sums]:
    """Sum (name, duration in ns, bytes) by name."""
    lists: dict[str, list[tuple[int, int]]] = {}
    for name, duration_ns, size in things:
        lists.setdefault(name, []).append((duration_ns, size))
    return {
        name: Sums(
            len(rows),
            sum(d for d, _ in rows),
            min(d for d, _ in rows),
            max(d for d, _ in rows),
            sum(b for _, b in rows),
        )
        for name, rows in sorted(lists.items())
    }


def _op_sums(ops: list[DeviceOp]) -> dict[str, Sums]:
    return sums_by_name((op.name, op.end_ns - op.start_ns, op.bytes or 0) for op in ops)


def _device_truth(rank: RankRun, device: int, grain_ns: int) -> DeviceTruth:
    ops = [op for op in rank.ops if op.device == device]
    breakdown = paint(ops, grain_ns)
    starting: dict[int, list[DeviceOp]] = {}
    for op in ops:
        starting.setdefault(op.start_ns, []).append(op)
    gaps = []
    for start, end in breakdown.gaps:
        # Where several operations start at once, the one that was launched first ended the gap.
        first = min(starting[end], key=lambda op: (op.launch.start_ns, op.op_id))
        gaps.append(Gap(start, end, parts_of(start, end, first, rank), first.binding, first))
    return DeviceTruth(
        rank.rank,
        device,
        breakdown,
        _op_sums([op for op in ops if op.kind == "kernel"]),
        _op_sums([op for op in ops if op.kind != "kernel"]),
        tuple(gaps),
    )


def _steps(rank: RankRun) -> tuple[tuple[int, int, int], ...]:
    return tuple(
        (int(r.name.partition("#")[2]), r.start_ns, r.end_ns)
        for r in rank.ranges
        if r.name.startswith("ProfilerStep#")
    )


def _collectives(run: Run) -> tuple[CollectiveTruth, ...]:
    found: dict[int, CollectiveTruth] = {}
    for rank in run.ranks:
        for op in rank.ops:
            if op.collective_seq is not None:
                first = CollectiveTruth(op.collective_seq, op.name, {}, op.end_ns)
                truth = found.setdefault(op.collective_seq, first)
                truth.starts_ns[rank.rank] = op.start_ns
    return tuple(found[seq] for seq in sorted(found))


def truth_of(run: Run) -> RunTruth:
    """Return everything that is known about a run."""
    ranks = {}
    for rank in run.ranks:
        used = sorted({op.device for op in rank.ops})
        calls = [r for r in rank.ranges if r.layer in ("runtime", "driver") and r.recorded]
        ranks[rank.rank] = RankTruth(
            rank.rank,
            {device: _device_truth(rank, device, run.grain_ns) for device in used},
            sums_by_name((r.name, r.end_ns - r.start_ns, 0) for r in calls),
            _steps(rank),
        )
    return RunTruth(run.name, run.planted, ranks, _collectives(run))
