"""Statistics of a window that runs: as those of its values, at a cost that does not grow."""

from __future__ import annotations

import random
import statistics
import sys
from types import FrameType
from typing import Any

import pytest

from sightline.record.monitor.policies import DEFAULT, Policies, load_policies
from sightline.record.monitor.readings import GPU, Entity, Reading
from sightline.record.monitor.rounds import Round
from sightline.record.monitor.running import RunningWindow

SECOND = 1_000_000_000
LENGTH = 60 * SECOND


@pytest.mark.parametrize("base", [0.0, 8e10])
def test_statistics_are_those_of_the_values_in_the_window(base: float) -> None:
    rng = random.Random(1)
    window = RunningWindow(LENGTH, 1000)
    told: list[tuple[int, float]] = []
    for n in range(2_000):
        at = n * SECOND // 4 + rng.randrange(SECOND // 8)
        told.append((at, base + rng.choice((rng.random() * 100, 7.0, n))))
        window.add(*told[-1])
        if n % 97:
            continue
        pairs = [pair for pair in told if pair[0] >= at - LENGTH]
        values = [value for _, value in pairs]
        found = window.summarize()
        assert found["count"] == len(values)
        assert (found["min"], found["max"]) == (min(values), max(values))
        assert (found["first"], found["last"]) == (values[0], values[-1])
        assert found["median"] == statistics.median(values)
        assert found["mean"] == pytest.approx(statistics.fmean(values), rel=1e-12)
        if len(values) > 1:
            seconds = [(moment - pairs[0][0]) / 1e9 for moment, _ in pairs]
            line = statistics.linear_regression(seconds, [value - base for value in values])
            assert found["slope"] == pytest.approx(line.slope, rel=1e-5, abs=1e-5)


def test_the_last_value_stays_and_no_more_than_so_many_are_kept() -> None:
    window = RunningWindow(LENGTH, 3)
    for n in range(5):
        window.add(n * SECOND, float(n))
    assert (window.summarize()["count"], window.summarize()["first"]) == (3, 2.0)
    window.drop_old(500 * SECOND)
    assert (window.summarize()["count"], window.summarize()["sum"]) == (1, 4.0)


def test_a_window_of_equal_values_has_no_slope() -> None:
    window = RunningWindow(LENGTH, 1000)
    for n in range(500):
        window.add(n * SECOND, 85899345920.1)
    assert window.summarize()["slope"] == 0.0


def count_lines(policies: Policies, first: int, rounds: int) -> int:
    """Lines of Python that judging so many rounds takes, of all 13 policies of one GPU."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    for n in range(first, first + rounds):
        values = {"GPU utilization": 50.0, "memory used": 1e9 + n % 7, "memory total": 8e10,
                  "power": 300.0, "SM active": 40.0, "temperature": 50.0}  # fmt: skip
        now = Round(n * SECOND, n * SECOND, [Reading(Entity(GPU, 0), n * SECOND, values)], [])
        sys.settrace(trace)
        policies.judge(now)
        sys.settrace(before)
    return lines


def test_a_round_costs_as_much_after_half_an_hour_as_in_the_first_minutes() -> None:
    """Steps are counted, not time: windows of half an hour are full from round 1,800 on."""
    policies = Policies(load_policies([DEFAULT]))
    early = count_lines(policies, 200, 100)
    for n in range(300, 1900):
        values = {"memory used": 1e9 + n % 7, "memory total": 8e10}
        policies.judge(
            Round(n * SECOND, n * SECOND, [Reading(Entity(GPU, 0), n * SECOND, values)], [])
        )
    late = count_lines(policies, 1900, 100)
    assert late < 1.3 * early
