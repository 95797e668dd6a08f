"""When sources are read: the grid of times, clocks that are set, sources that fail."""

from __future__ import annotations

from record.monitor.machine import SECOND, FakeClock, Told, play
from sightline.record.monitor.readings import GPU, HOST, Answer, Device, Entity, Rates, Reading

ME = Entity(GPU, 0)


class Slow(Told):
    """A source whose reading takes a while."""

    def __init__(self, clock: FakeClock, seconds: dict[int, float]) -> None:
        super().__init__([[]])
        self.clock, self.seconds = clock, seconds

    def read(self, wall_ns: int, steady_ns: int) -> Answer:
        self.clock.steady += round(self.seconds.get(self.at, 0) * SECOND)
        return super().read(wall_ns, steady_ns)


def test_a_slow_round_is_not_followed_by_a_burst() -> None:
    clock = FakeClock(9)
    at = [now.steady_ns / SECOND for now in play([Slow(clock, {2: 3.4})], clock)]
    assert at == [0, 1, 2, 6, 7, 8]


def test_a_wall_clock_that_is_set_changes_no_times_of_rounds() -> None:
    clock = FakeClock(6, jumps={2: 3600, 4: -3600})
    rounds = list(play([Told([[]])], clock))
    assert [now.steady_ns for now in rounds] == [n * SECOND for n in range(6)]
    told = [(n, e.kind, e.text) for n, now in enumerate(rounds) for e in now.events]
    assert told == [
        (2, "clock-set", "the wall clock was set forward by 3600.0 s"),
        (4, "clock-set", "the wall clock was set back by 3600.0 s"),
    ]


def test_a_gap_is_told() -> None:
    clock = FakeClock(30)
    rounds = list(play([Slow(clock, {1: 20})], clock))
    assert [e.text for now in rounds for e in now.events] == ["nothing was read for 21.0 s"]


def test_a_source_that_fails_leaves_the_others_alone() -> None:
    class Broken(Told):
        name = "broken"

        def read(self, wall_ns: int, steady_ns: int) -> Answer:
            raise RuntimeError("no such bus")

    from sightline.record.monitor.rounds import run_rounds

    told: list[str] = []
    sources = [Broken([[]]), Told([[Reading(ME, 0, {"power": 1.0})]])]
    clock = FakeClock(2)
    rounds = list(run_rounds(sources, 1, clock, lambda name, error: told.append(f"{name} {error}")))
    assert told == ["broken no such bus"] * 2
    assert [r.values for now in rounds for r in now.readings] == [{"power": 1.0}] * 2


def test_two_sources_of_one_gpu_are_one_reading_and_the_later_one_counts() -> None:
    first = Told([[Reading(ME, 0, {"SM active": 5, "power": 1}, {"fan speed": "none"})]])
    second = Told([[Reading(ME, 0, {"power": 2, "fan speed": 3}, {"SM active": "too old"})]])
    (now,) = play([first, second], FakeClock(1))
    (reading,) = now.readings
    assert reading.values == {"SM active": 5, "power": 2, "fan speed": 3}
    assert reading.missing == {}


def test_rates_of_a_counter_that_is_reset() -> None:
    rates = Rates()
    told = [rates.measure(ME, "x", n * SECOND, count) for n, count in enumerate((5, 9, 2, 2, 4))]
    assert told == [None, 4, None, 0, 2]


def test_devices_are_listed_by_what_reads_them() -> None:
    assert Device(0, "amd", "MI300X").uuid == ""
    assert Entity(HOST).device_id is None
