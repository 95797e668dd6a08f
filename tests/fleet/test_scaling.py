"""Efficiency over the number of ranks, and forecasts where the law is known."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.fleet.efficiency import Efficiency
from sightline.fleet.scaling import Point, compare_jobs, forecast


def job(ranks: int, length: int, useful: int, balance: float, serial: float, transfer: float):
    return Efficiency(ranks, length, useful, balance, serial, transfer, 1.0, 1.0, 1.0)


def points(lengths: dict[int, float]) -> list[Point]:
    return [Point(n, round(t), 1.0, {"transfer": 0.5}) for n, t in lengths.items()]


@pytest.mark.parametrize("weak", [False, True])
def test_the_factors_multiply_to_the_efficiency(weak: bool) -> None:
    """Length = useful / (ranks × parallel efficiency), by the definition of the latter."""
    jobs = []
    for ranks, useful, factors in ((2, 1000, (0.9, 0.95, 1.0)), (8, 1200, (0.8, 0.9, 0.7))):
        work = useful * ranks if weak else useful
        jobs.append(job(ranks, round(1e6 * work / (ranks * np.prod(factors))), work, *factors))
    first, last = compare_jobs(jobs[::-1], weak=weak)
    assert first.efficiency == pytest.approx(1.0)
    assert last.efficiency == pytest.approx(np.prod(list(last.factors.values())), rel=1e-4)
    assert last.factors["computation"] == pytest.approx(1000 / 1200)
    assert last.largest_loss == "transfer"


def test_amdahls_law_is_found_and_followed() -> None:
    serial = {n: 1e6 * (0.05 + 0.95 / n) for n in (1, 2, 4, 8)}
    ahead = forecast(points(serial), 64, weak=False)
    assert ahead.model == "a + b/n (Amdahl)"
    assert ahead.efficiency == pytest.approx(1 / (64 * (0.05 + 0.95 / 64)), rel=1e-3)
    assert ahead.low <= ahead.efficiency <= ahead.high


def test_a_tree_in_weak_scaling() -> None:
    ahead = forecast(points({n: 1e6 + 5e4 * np.log2(n) for n in (1, 2, 4, 8)}), 64, weak=True)
    assert ahead.model == "a + b log2 n"
    assert ahead.efficiency == pytest.approx(1 / 1.3, rel=1e-3)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    dice = np.random.default_rng(4)
    inside = 0
    for _ in range(400):
        noise = {n: 1e6 * (0.05 + 0.95 / n) + dice.normal(0, 3e3) for n in (1, 2, 4, 8, 16)}
        ahead = forecast(points(noise), 32, weak=False)
        true = noise[1] / (32 * (1e6 * (0.05 + 0.95 / 32) + dice.normal(0, 3e3)))
        inside += ahead.low <= true <= ahead.high
    assert inside / 400 >= 0.9


@pytest.mark.parametrize(
    ("weak", "law", "written"),
    [
        (True, lambda n: 1e6 + 2e4 * n**0.5, "b n^(1/2) + a"),
        (True, lambda n: 1e6 + 3e3 * n * np.log2(n), "b n log2 n + a"),
        (False, lambda n: 1e8 / n + 4e5 * np.log2(n), "b log2 n + a/n"),
        (False, lambda n: 1e8 / n + 5e5, "b + a/n (Amdahl)"),
    ],
)
def test_a_law_of_the_normal_form_is_found_and_followed(weak: bool, law, written: str) -> None:
    ahead = forecast(points({n: law(n) for n in (2, 4, 8, 16, 32)}), 256, weak=weak)
    more = 1 if weak else 256 / 2
    assert ahead.model == written
    assert ahead.efficiency == pytest.approx(law(2) / (law(256) * more), rel=1e-3)
    assert ahead.low <= ahead.efficiency <= ahead.high


def test_the_interval_holds_far_ahead_for_a_law_that_nobody_named() -> None:
    """Sixteen times as many ranks; noise of 1 %."""
    dice = np.random.default_rng(8)
    inside = 0
    for _ in range(100):
        noise = {n: (1e6 + 2e4 * n**0.5) * dice.normal(1, 0.01) for n in (1, 2, 4, 8, 16)}
        ahead = forecast(points(noise), 256, weak=True)
        true = noise[1] / ((1e6 + 2e4 * 256**0.5) * dice.normal(1, 0.01))
        inside += ahead.low <= true <= ahead.high
    assert inside >= 90


def test_too_few_jobs_forecast_nothing() -> None:
    assert forecast(points({1: 1e6, 2: 6e5}), 8, weak=False) is None
    three = forecast(points({1: 1e6, 2: 525_000, 4: 287_500}), 8, weak=False)
    assert three.low is not None
