"""When sources are read: once a period, by a clock that never jumps.

The wall clock only says which time a reading carries. Where it is set, or the machine slept, the
round says so with an event, and no reading is made up for or repeated; a round that took longer
than the period is not followed by a burst.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sightline.record.monitor.readings import HOST, Answer, Entity, Event, Reading, Source

_SECOND = 1_000_000_000
# Clocks that NTP steers move by 0.05 % at most (ntpd's panic and step limits: 128 ms is a step).
_JUMP_NS = _SECOND
_MACHINE = Entity(HOST)


class Clock(Protocol):
    """The time, and waiting; tests have one of their own."""

    def wall_ns(self) -> int:
        """ns since 1970."""

    def steady_ns(self) -> int:
        """ns of a clock that is never set, and that counts while the machine sleeps."""

    def wait(self, seconds: float) -> bool:
        """Wait; True where the wait was ended because all shall end."""


class MachineClock:
    """The machine's clocks. `stop` ends a wait at once, also from a signal's handler.

    With a length, waiting ends for ever after that many seconds.
    """

    def __init__(self, length_s: float | None = None) -> None:
        self._stopped = False
        self._end = None if length_s is None else time.monotonic() + length_s

    def wall_ns(self) -> int:
        """ns since 1970."""
        return time.time_ns()

    def steady_ns(self) -> int:
        """Time since the machine started, asleep or not."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def stop(self) -> None:
        """End the wait that is, and each that follows."""
        self._stopped = True

    def wait(self, seconds: float) -> bool:
        """Wait in short turns: a lock would need a thread to be woken."""
        end = time.monotonic() + seconds
        if self._end is not None:
            end = min(end, self._end)
        while not self._stopped and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.25))
        return self._stopped or (self._end is not None and time.monotonic() >= self._end)


@dataclass
class Round:
    """What one round gave: one reading an entity, and what happened."""

    wall_ns: int
    steady_ns: int
    readings: list[Reading] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    cost_ns: int = 0


def run_rounds(
    sources: Sequence[Source],
    period_s: float,
    clock: Clock,
    on_failure: Callable[[str, Exception], None] | None = None,
) -> Iterator[Round]:
    """Rounds for ever, one every `period_s`, until the clock says that all shall end.

    A source that raises is asked again in the next round; `on_failure` is told.
    """
    period_ns = round(period_s * _SECOND)
    due = clock.steady_ns()
    last: Round | None = None
    while True:
        now = Round(clock.wall_ns(), clock.steady_ns())
        if last is not None:
            now.events += _note_clocks(last, now, period_ns)
        _read_sources(sources, now, on_failure)
        now.cost_ns = clock.steady_ns() - now.steady_ns
        yield now
        last = now
        # The next time on the grid that is still to come.
        behind = max(0, clock.steady_ns() - due)
        due += period_ns * (behind // period_ns + 1)
        if clock.wait((due - clock.steady_ns()) / _SECOND):
            return


def _read_sources(
    sources: Sequence[Source],
    now: Round,
    on_failure: Callable[[str, Exception], None] | None,
) -> None:
    merged: dict[Entity, Reading] = {}
    for source in sources:
        try:
            answer = source.read(now.wall_ns, now.steady_ns)
        except Exception as error:  # of somebody else's library: the others go on
            answer = Answer()
            if on_failure is not None:
                on_failure(source.name, error)
        now.events += answer.events
        for reading in answer.readings:
            known = merged.setdefault(reading.entity, reading)
            if known is not reading:
                known.values.update(reading.values)
                known.missing = {**known.missing, **reading.missing}
    for reading in merged.values():
        reading.missing = {m: why for m, why in reading.missing.items() if m not in reading.values}
    now.readings = list(merged.values())


def _note_clocks(last: Round, now: Round, period_ns: int) -> list[Event]:
    passed = now.steady_ns - last.steady_ns
    jump = now.wall_ns - last.wall_ns - passed
    events = []
    if abs(jump) >= _JUMP_NS:
        way = "forward" if jump > 0 else "back"
        text = f"the wall clock was set {way} by {abs(jump) / _SECOND:.1f} s"
        events.append(Event(now.wall_ns, "clock-set", _MACHINE, text))
    if passed > 5 * period_ns + _JUMP_NS:
        text = f"nothing was read for {passed / _SECOND:.1f} s"
        events.append(Event(now.wall_ns, "gap", _MACHINE, text))
    return events
