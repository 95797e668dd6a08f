"""What happened in a simulated run, before any profiler's format."""

from __future__ import annotations

from dataclasses import dataclass, field

from worlds.calls import Work


@dataclass(slots=True)
class HostRange:
    """A range of a host thread; times in ns."""

    tid: int
    kind: str  # op, annotation, step, python, os, mpi, api
    name: str
    start: int
    end: int
    correlation: int = 0
    args: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class DeviceRange:
    """A range of a stream; times in ns."""

    stream: int
    work: Work
    start: int
    end: int
    correlation: int
    external: int = 0  # the framework operator that launched it
    graph: int = 0


@dataclass(slots=True)
class Waited:
    """A wait between host, stream and event; times in ns."""

    kind: str  # event, wait, stream, device
    tid: int
    start: int
    end: int
    correlation: int
    stream: int | None
    event: object = None
    recorded_by: int = 0  # correlation of the call that recorded the event
    recorded_on: int = -1  # and the stream that it was recorded on


@dataclass(slots=True)
class Recorded:
    """An event that a stream has reached."""

    stream: int
    time: int
    correlation: int
    event: object


@dataclass(slots=True)
class RankRecord:
    """All that happened on one rank after its profiler started."""

    rank: int
    pid: int
    device: int = 0
    threads: dict[int, str] = field(default_factory=dict)
    hosts: list[HostRange] = field(default_factory=list)
    devices: list[DeviceRange] = field(default_factory=list)
    waits: list[Waited] = field(default_factory=list)
    events: list[Recorded] = field(default_factory=list)

    def span(self) -> tuple[int, int]:
        """From the first start to the last end on the device (ns)."""
        return min(d.start for d in self.devices), max(d.end for d in self.devices)

    def busy_ns(self) -> int:
        """Time in which a kernel computed, overlaps counted once: no copies, no communication."""
        total, reached = 0, -1
        ranges = [d for d in self.devices if d.work.kind == "kernel" and not d.work.collective]
        for d in sorted(ranges, key=lambda d: d.start):
            total += max(0, d.end - max(d.start, reached))
            reached = max(reached, d.end)
        return total


@dataclass(slots=True)
class RunRecord:
    """All ranks of a simulated run."""

    ranks: list[RankRecord]

    def window_ns(self) -> int:
        """From the first start to the last end on any device."""
        spans = [rank.span() for rank in self.ranks]
        return max(end for _, end in spans) - min(start for start, _ in spans)

    def busy_share(self) -> float:
        """The share of all ranks' windows in which their devices computed."""
        windows = sum(end - start for start, end in (rank.span() for rank in self.ranks))
        return sum(rank.busy_ns() for rank in self.ranks) / windows
