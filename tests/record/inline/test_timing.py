"""Timing with its uncertainty."""

from __future__ import annotations

import math
import os
import statistics

import pytest

import sightline as sl
from sightline.record.inline import timing


def test_a_timed_function_says_how_sure_its_mean_is():
    calls = []

    @sl.profile(warmup=2, iterations=5)
    def work(a: int) -> int:
        calls.append(a)
        return a * 2

    result = work(21)
    assert len(calls) == 7
    assert (result.result, result.name, result.clock) == (42, "work", "host")
    assert len(result.durations_ns) == 5
    low, high = result.ci95_ns
    assert low <= result.mean_ns <= high


def test_the_confidence_interval_against_the_textbook():
    """NIST e-Handbook 7.1.4's formula, with t(0.975, 9) = 2.262."""
    data = tuple(range(100, 200, 10))
    made = timing.Timing("x", data, "host")
    half = 2.262 * statistics.stdev(data) / math.sqrt(10)
    assert made.ci95_ns == pytest.approx((145 - half, 145 + half))
    assert timing.Timing("x", (5,), "host").ci95_ns == (-math.inf, math.inf)


@pytest.mark.parametrize("text", ["1:2", "a:b:c", "1:1:0", "-1:0:1", ""])
def test_a_schedule_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="is not a schedule"):
        timing.steps_of(text)
    assert timing.steps_of("2:1:5") == [2, 1, 5]
    assert os.environ.get("SIGHTLINE_RUN") is None
