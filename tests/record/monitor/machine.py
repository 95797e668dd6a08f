"""A clock that tests move, and rounds of the real sources on a fake machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sightline.record.monitor.readings import Answer, Device, Reading, Source
from sightline.record.monitor.rounds import Round, run_rounds

SECOND = 1_000_000_000
EPOCH = 1_780_000_000 * SECOND


class FakeClock:
    """Waiting is moving on. `jumps` are added to the wall clock at a steady second."""

    def __init__(
        self,
        length_s: float,
        move: Callable[[float], None] = lambda _: None,
        jumps: dict[int, float] | None = None,
    ) -> None:
        self.steady, self.length_s, self.move, self.jumps = 0, length_s, move, jumps or {}

    def wall_ns(self) -> int:
        moved = sum(by for at, by in self.jumps.items() if self.steady >= at * SECOND)
        return EPOCH + self.steady + round(moved * SECOND)

    def steady_ns(self) -> int:
        return self.steady

    def wait(self, seconds: float) -> bool:
        self.steady += max(0, round(seconds * SECOND))
        self.move(self.steady / SECOND)
        return self.steady >= self.length_s * SECOND


class Told:
    """A source that answers what a test gives it, a list of readings a round."""

    name = "told"

    def __init__(self, rounds: Sequence[Sequence[Reading]]) -> None:
        self.rounds, self.at = rounds, 0

    def list_devices(self) -> list[Device]:
        return []

    def read(self, wall_ns: int, steady_ns: int) -> Answer:
        mine = self.rounds[min(self.at, len(self.rounds) - 1)]
        self.at += 1
        return Answer([Reading(r.entity, wall_ns, dict(r.values), dict(r.missing)) for r in mine])

    def close(self) -> None:
        pass


def play(sources: Sequence[Source], clock: FakeClock, period_s: float = 1) -> Iterator[Round]:
    return run_rounds(sources, period_s, clock)
