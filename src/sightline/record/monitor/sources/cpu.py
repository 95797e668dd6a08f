"""CPUs one by one: load, FLOP rate, memory bandwidth, by hardware thread and socket.

What likwid's groups tell of a node. Load is of /proc/stat, the rest of `perf stat`; where that
cannot count, each metric says why, and is not 0. Counters serve few readers at a time, and a
node's 256 threads are many readings: this place is read only where it is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil

from sightline.record.monitor.readings import HOST, Answer, Device, Entity, Event, Reading
from sightline.record.monitor.sources import _perf_stat as perf
from sightline.record.monitor.sources._child import LineReader
from sightline.record.monitor.sources._sysfs import SYSTEM

_PERIOD_MS = 10_000  # cc-metric-collector's interval
_NODE = Entity(HOST)
_BUSY = "CPU utilization"
_IPC = "instructions per cycle"


def open_source(first_device: int = 0, root: Path = SYSTEM) -> CpuSource:
    """Always there: what is not counted is said."""
    del first_device
    plan = perf.plan_counts()
    lines = LineReader(perf.write_command(plan, _PERIOD_MS), "") if plan.counts else None
    return CpuSource(plan, lines, perf.read_sockets(root))


def name_thread(cpu: int) -> Entity:
    """A hardware thread."""
    return Entity(HOST, None, f"CPU {cpu}")


def name_socket(socket: int) -> Entity:
    """A socket, with all of its threads and its memory."""
    return Entity(HOST, None, f"socket {socket}")


class CpuSource:
    """Load in each round, counters where an interval of theirs has ended."""

    name = "cpu"

    def __init__(
        self,
        plan: perf.Plan,
        lines: LineReader | None,
        sockets: dict[int, int],
        read_times: Callable[[], list[Any]] = lambda: psutil.cpu_times(percpu=True),
    ) -> None:
        self._plan, self._lines, self._sockets = plan, lines, sockets
        self._read_times = read_times
        self._times: list[Any] = []
        self._waiting: dict[float, list[perf.Reading]] = {}
        self._ended_s = 0.0
        self._last_word = ""

    def list_devices(self) -> list[Device]:
        """None: a CPU is not a device here."""
        return []

    def close(self) -> None:
        """End perf."""
        if self._lines is not None:
            self._lines.close()

    def read(self, wall_ns: int, steady_ns: int) -> Answer:
        """One round; load from the second on."""
        del steady_ns
        answer = Answer()
        found: dict[Entity, dict[str, float]] = {}
        busy = self._read_load()
        for cpu, pct in busy.items():
            found.setdefault(name_thread(cpu), {})[_BUSY] = pct
        for socket in sorted(set(self._sockets.values())):
            own = [pct for cpu, pct in busy.items() if self._sockets.get(cpu) == socket]
            if own:
                found.setdefault(name_socket(socket), {})[_BUSY] = sum(own) / len(own)
        for entity, values in self._read_counters():
            found.setdefault(entity, {}).update(values)
        found.setdefault(_NODE, {})
        for entity, values in found.items():
            reading = Reading(entity, wall_ns, values)
            if entity == _NODE:
                reading.missing = dict(self._plan.missing)
            answer.readings.append(reading)
        if self._lines is not None and self._lines.note_end():
            text = f"perf has ended: {self._last_word or 'it said nothing'}"
            answer.events.append(Event(wall_ns, "source-ended", _NODE, text))
        return answer

    def _read_load(self) -> dict[int, float]:
        """Shares of the time of each CPU since the last round; guests' is in user's (proc(5))."""
        now, last, self._times = self._read_times(), self._times, []
        self._times = now
        if len(now) != len(last):  # the first round, or a CPU came or went
            return {}
        found = {}
        for cpu, (times, before) in enumerate(zip(now, last, strict=True)):
            whole = sum(times[:8]) - sum(before[:8])
            idle = times.idle - before.idle
            idle += getattr(times, "iowait", 0.0) - getattr(before, "iowait", 0.0)
            if whole > 0 and 0 <= idle <= whole:
                found[cpu] = 100 * (whole - idle) / whole
        return found

    def _read_counters(self) -> Iterable[tuple[Entity, dict[str, float]]]:
        """Of the interval that ended before this round; its lines come together."""
        if self._lines is None:
            return
        came = False
        for line in self._lines.take_lines():
            one = perf.read_line(line)
            if one is not None:
                self._waiting.setdefault(one.end_s, []).append(one)
                came = True
            else:
                self._last_word = line.strip() or self._last_word
        # The last one may still be being printed, where something came.
        for end in sorted(self._waiting)[: -1 if came else None]:
            yield from self._sum(end, self._waiting.pop(end))

    def _sum(
        self, end: float, lines: list[perf.Reading]
    ) -> Iterable[tuple[Entity, dict[str, float]]]:
        length, self._ended_s = end - self._ended_s, end
        if length <= 0:
            return
        rates = perf.sum_rates(self._plan, lines, length)
        parts: dict[Entity, list[dict[str, float]]] = {}
        for cpu, values in rates.items():
            of_thread = {m: v for m, v in values.items() if m != perf.MEMORY}
            yield name_thread(cpu), _finish([of_thread])
            parts.setdefault(_NODE, []).append(values)
            if cpu in self._sockets:
                parts.setdefault(name_socket(self._sockets[cpu]), []).append(values)
        for entity, held in parts.items():
            yield entity, _finish(held)


def _finish(parts: list[dict[str, float]]) -> dict[str, float]:
    """The sum of some threads. Memory is counted by one thread of each socket; the rest by all."""
    names = {name for part in parts for name in part}
    found = {}
    for name in names:
        values = [part[name] for part in parts if name in part]
        if name == perf.MEMORY or len(values) == len(parts):
            found[name] = sum(values)
    instructions, cycles = found.pop(perf.INSTRUCTIONS, None), found.pop(perf.CYCLES, None)
    if instructions is not None and cycles:
        found[_IPC] = instructions / cycles
    return {name: value for name, value in found.items() if not math.isnan(value)}
