"""The last value of each metric, with its age: what is shown and exported."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from sightline.record.monitor.readings import CURRENT_NS, PROCESS, Device, Entity, Event, Source
from sightline.record.monitor.rounds import Round

_EVENTS = 256
_HISTORY = 240  # values of a metric for its sparkline: more than a screen is wide


@dataclass
class Latest:
    """What is known now. `put` and the readers may be called by different threads."""

    devices: dict[int, Device] = field(default_factory=dict)
    history_of: frozenset[str] = frozenset()  # metrics whose last values are kept, too
    steady_ns: int = 0
    wall_ns: int = 0
    cost_ns: int = 0
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    _values: dict[Entity, dict[str, tuple[int, float]]] = field(default_factory=dict)
    _missing: dict[Entity, dict[str, str]] = field(default_factory=dict)
    _history: dict[tuple[Entity, str], deque[float | None]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, now: Round) -> None:
        """Take a round in. Processes that are gone are forgotten, a lost GPU's values too."""
        with self._lock:
            self.steady_ns, self.wall_ns, self.cost_ns = now.steady_ns, now.wall_ns, now.cost_ns
            self.events.extend(now.events)
            seen = {reading.entity for reading in now.readings}
            for entity in [e for e in self._values if e.kind == PROCESS and e not in seen]:
                del self._values[entity]
                self._missing.pop(entity, None)
            for reading in now.readings:
                known = self._values.setdefault(reading.entity, {})
                if "*" in reading.missing:
                    known.clear()
                for metric in reading.missing:
                    known.pop(metric, None)
                known.update({m: (now.steady_ns, v) for m, v in reading.values.items()})
                self._missing[reading.entity] = dict(reading.missing)
                for metric in self.history_of:
                    key = reading.entity, metric
                    if metric in reading.values or key in self._history:
                        line = self._history.setdefault(key, deque(maxlen=_HISTORY))
                        line.append(reading.values.get(metric))

    def note_devices(self, sources: Iterable[Source]) -> None:
        """Take in what devices there are; one that is lost stays. Readers see all or none."""
        found = {device.device_id: device for s in sources for device in s.list_devices()}
        self.devices = {**self.devices, **found}

    def list_entities(self, kind: str) -> list[Entity]:
        """The entities of a kind, in order."""
        with self._lock:
            found = {e for e in (*self._values, *self._missing) if e.kind == kind}
        return sorted(found, key=lambda e: (e.device_id is None, e.device_id or 0, e.source or ""))

    def values(self, entity: Entity) -> dict[str, float]:
        """The current values by metric; none that is older than a minute."""
        with self._lock:
            known = self._values.get(entity, {})
            oldest = self.steady_ns - CURRENT_NS
            return {m: value for m, (at, value) in known.items() if at >= oldest}

    def missing(self, entity: Entity) -> dict[str, str]:
        """Why metrics have no value, by metric; under "*" why there is none at all."""
        with self._lock:
            return dict(self._missing.get(entity, {}))

    def history(self, entity: Entity, metric: str) -> list[float | None]:
        """The last values, oldest first; None where a round had none."""
        with self._lock:
            return list(self._history.get((entity, metric), ()))
