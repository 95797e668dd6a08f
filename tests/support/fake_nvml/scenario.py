"""What fake GPUs answer over time, and the file that the fake library reads it from.

Names and units are NVML's own: the function without nvmlDeviceGet, its arguments after slashes, the
field of its structure after a dot (`PowerUsage` in mW, `ClockInfo/1` in MHz, `Gpm/2` in percent,
`FieldValues/83/0` in mJ). What a device has no value for, it does not support.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from pathlib import Path

# nvml.h: nvmlReturn_t and nvmlEventType.
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, GPU_IS_LOST = 3, 4, 9, 15
SINGLE_BIT_ECC, DOUBLE_BIT_ECC, PSTATE, XID, CLOCK = 1, 2, 4, 8, 16
ALL_INSTANCES = 0xFFFFFFFF  # also the scope of all NVLinks
POLICIES = (0, 1, 2, 3, 4, 5, 10, 11)  # NVML_PERF_POLICY_*

Point = tuple[float, float]


@dataclass(frozen=True)
class Values:
    """A value over time: points of (seconds, value), which may share a moment (a jump)."""

    points: tuple[Point, ...]
    is_ramp: bool = False

    def at(self, seconds: float) -> float:
        """The value at a moment, computed apart from the C code."""
        before = [p for p in self.points if p[0] <= seconds]
        after = [p for p in self.points if p[0] > seconds]
        if not before:
            return self.points[0][1]
        if not self.is_ramp or not after:
            return before[-1][1]
        (t0, v0), (t1, v1) = before[-1], after[0]
        return v0 + (seconds - t0) / (t1 - t0) * (v1 - v0)


def steps(*points: Point) -> Values:
    """Values that hold until the next."""
    return Values(points)


def ramp(*points: Point) -> Values:
    """Values that change evenly from point to point."""
    return Values(points, is_ramp=True)


def accumulate(rate: Values, until_s: float, *, resets: Sequence[float] = ()) -> Values:
    """The counter of a rate that changes in steps, from 0 anew at each reset."""
    times = sorted({0.0, until_s, *resets, *(t for t, _ in rate.points if 0 <= t <= until_s)})
    points, total = [(times[0], 0.0)], 0.0
    for begin, end in pairwise(times):
        total += rate.at(begin) * (end - begin)
        points.append((end, total))
        if end in resets:
            total = 0.0
            points.append((end, total))
    return ramp(*points)


@dataclass(frozen=True)
class Failure:
    """A code instead of an answer: of a name as in `Device.values`, a function, or * for all."""

    name: str
    code: int
    from_s: float = 0.0
    until_s: float = inf


@dataclass(frozen=True)
class Delay:
    """How long a function takes to answer, in real seconds; names as of a failure."""

    name: str
    seconds: float
    from_s: float = 0.0
    until_s: float = inf


@dataclass(frozen=True)
class Event:
    """What nvmlEventSetWait gives out: its type and data (an XID's number)."""

    at_s: float
    data: int
    type: int = XID
    gpu_instance: int = ALL_INSTANCES
    compute_instance: int = ALL_INSTANCES


@dataclass(frozen=True)
class Process:
    """A process on a GPU; memory None is what NVML cannot say."""

    pid: int
    used_bytes: int | None
    sm: int = 0
    memory: int = 0
    encoder: int = 0
    decoder: int = 0
    is_graphics: bool = False
    from_s: float = 0.0
    until_s: float = inf
    gpu_instance: int = ALL_INSTANCES
    compute_instance: int = ALL_INSTANCES


@dataclass
class Device:
    """A GPU, or an instance of one (in `instances`, with its ids)."""

    name: str
    uuid: str
    bus_id: str = "00000000:00:00.0"
    serial: str = "0"
    values: dict[str, Values | float] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    delays: list[Delay] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    instances: list[Device] = field(default_factory=list)
    gpu_instance: int = ALL_INSTANCES
    compute_instance: int = ALL_INSTANCES

    def lose(self, at_s: float, xid: int = 79) -> None:
        """Let it fall off the bus: XID 79, and every call says that it is lost."""
        self.events.append(Event(at_s, xid))
        self.failures.append(Failure("*", GPU_IS_LOST, at_s))

    def refuse(self, *names: str, code: int = NOT_SUPPORTED, from_s: float = 0.0) -> None:
        """Answer these with a code."""
        self.failures += [Failure(name, code, from_s) for name in names]


@dataclass
class Scenario:
    """A machine: its devices and its driver."""

    devices: list[Device]
    driver_version: str = "575.57.08"
    nvml_version: str = "12.575.57.08"
    cuda_version: int = 12090
    init_code: int = 0
    epoch_ns: int = 1_750_000_000 * 10**9

    def write(self, path: Path) -> Path:
        """The file that the library reads: an item a line, tabs between its parts."""
        lines = [
            _item("system", self.driver_version, self.nvml_version, self.cuda_version,
                  self.init_code, self.epoch_ns)
        ]  # fmt: skip
        place = 0
        for device in self.devices:
            lines += _describe(device, -1)
            for instance in device.instances:
                lines += _describe(instance, place)
            place += 1 + len(device.instances)
        path.write_text("\n".join(lines) + "\n")
        return path


def _item(*parts: object) -> str:
    texts = [str(part) for part in parts]
    if any(not text or "\t" in text or "\n" in text for text in texts):
        raise ValueError(f"not a line of a scenario: {texts}")
    return "\t".join(texts)


def _describe(device: Device, parent: int) -> list[str]:
    ids = device.gpu_instance, device.compute_instance
    lines = [_item("device", parent, device.name, device.uuid, device.bus_id, device.serial, *ids)]
    for name, value in device.values.items():
        over_time = value if isinstance(value, Values) else steps((0, value))
        points = " ".join(f"{float(t)!r} {float(v)!r}" for t, v in over_time.points)
        lines.append(_item("value", name, "ramp" if over_time.is_ramp else "steps", points))
    lines += [_item("failure", f.name, f.code, f.from_s, f.until_s) for f in device.failures]
    lines += [_item("delay", d.name, d.seconds, d.from_s, d.until_s) for d in device.delays]
    lines += [
        _item("event", e.at_s, e.type, e.data, e.gpu_instance, e.compute_instance)
        for e in sorted(device.events, key=lambda e: e.at_s)
    ]
    lines += [
        _item(
            "process", "G" if p.is_graphics else "C", p.pid,
            "-" if p.used_bytes is None else p.used_bytes, p.gpu_instance, p.compute_instance,
            p.from_s, p.until_s, p.sm, p.memory, p.encoder, p.decoder,
        )
        for p in device.processes
    ]  # fmt: skip
    return lines
