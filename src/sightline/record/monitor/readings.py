"""What a source answers: values of a GPU, a part of it, a process, the host or a link.

No reading is never zero: a metric without a value is not in `values`, and `missing` says why where
that is known. Counters may be reset (a driver is loaded anew, a register wraps): `Rates` then has
no rate, rather than a wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

# Values that are read each half minute are current for twice that; what is older is not known.
CURRENT_NS = 65 * 1_000_000_000
# Kinds of entities: the tables of a history.
GPU, INSTANCE, PROCESS, HOST, LINK = "gpus", "instances", "processes", "host", "links"


class Entity(NamedTuple):
    """What is measured. `device_id` is null for the host and its links; `source` names a part."""

    kind: str
    device_id: int | None = None
    source: str | None = None


def read_pid(entity: Entity) -> int:
    """The number of a process, whose source is such as `process 4711`."""
    return int((entity.source or "process 0").split()[-1])


class Device(NamedTuple):
    """What does not change of a device: shown and exported beside its values."""

    device_id: int
    vendor: str
    name: str
    uuid: str = ""
    pci_bus_id: str = ""
    driver: str = ""


@dataclass(slots=True)
class Reading:
    """Values of one entity by metric (see `metrics`), read at a time in ns since 1970."""

    entity: Entity
    time_ns: int
    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


class Event(NamedTuple):
    """Something that happened: an XID, a device that was lost, a counter that was reset."""

    time_ns: int
    kind: str
    entity: Entity
    text: str


@dataclass(slots=True)
class Answer:
    """What one round of a source gave."""

    readings: list[Reading] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class Source(Protocol):
    """A place that is read in each round. What it cannot read it says once, and never raises."""

    name: str

    def list_devices(self) -> list[Device]:
        """The devices that it reads."""

    def read(self, wall_ns: int, steady_ns: int) -> Answer:
        """One round, at this time by the wall clock and by one that never jumps."""

    def close(self) -> None:
        """End what was opened."""


class Rates:
    """Rates of counters between two rounds."""

    def __init__(self) -> None:
        self._last: dict[tuple[Entity, str], tuple[int, float]] = {}

    def measure(self, entity: Entity, metric: str, steady_ns: int, count: float) -> float | None:
        """Per second since the last round; None for the first one and after a reset."""
        key = entity, metric
        last = self._last.get(key)
        self._last[key] = steady_ns, count
        if last is None or count < last[1] or steady_ns <= last[0]:
            return None
        return (count - last[1]) / (steady_ns - last[0]) * 1e9
