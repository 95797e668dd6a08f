"""Rates and their intervals against simulated fleets whose truth is known."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from sightline.health.failures.rates import (
    bound_mtbf,
    bound_rate,
    expect_interruptions,
    fit_shape,
)


def simulate_fleet(random_source: np.random.Generator, gpus: int, hours: float, mtbf: float) -> int:
    """Failures of a fleet, GPU by GPU: each fails again and again after times of this mean."""
    failures = 0
    ages = random_source.exponential(mtbf, gpus)
    while (failed := ages < hours).any():
        failures += int(failed.sum())
        ages = ages[failed] + random_source.exponential(mtbf, int(failed.sum()))
    return failures


def measure_coverage(fleets: int, gpus: int, seed: int) -> float:
    """The share of fleets whose interval covers the true MTBF, of rare and of frequent failures."""
    random_source = np.random.default_rng(seed)
    covered = 0
    for _ in range(fleets):
        hours = random_source.uniform(24, 2400)
        # Two to eighty failures are expected.
        mtbf = gpus * hours / math.exp(random_source.uniform(math.log(2), math.log(80)))
        interval = bound_mtbf(simulate_fleet(random_source, gpus, hours, mtbf), gpus * hours)
        covered += interval.low <= mtbf <= interval.high
    return covered / fleets


def test_intervals_of_90_per_cent_cover_the_truth() -> None:
    assert 0.87 <= measure_coverage(1000, 1000, seed=3) <= 0.93


@pytest.mark.campaign
def test_so_they_do_in_fleets_of_a_hundred_thousand() -> None:
    assert 0.87 <= measure_coverage(1000, 100_000, seed=4) <= 0.93


def test_rate_and_mtbf_are_each_others_inverse() -> None:
    rate, mtbf = bound_rate(20, 1000.0), bound_mtbf(20, 1000.0)
    assert (rate.value, mtbf.value) == (0.02, 50.0)
    assert mtbf.low == pytest.approx(1 / rate.high) and mtbf.high == pytest.approx(1 / rate.low)
    # Jeffreys of 20: half the 5 and 95 % quantiles of chi-square with 41 degrees (27.33, 56.94).
    assert (rate.low * 2000, rate.high * 2000) == pytest.approx((27.33, 56.94), abs=0.01)


def test_no_failure_bounds_the_rate_from_above_only() -> None:
    rate, mtbf = bound_rate(0, 1000.0), bound_mtbf(0, 1000.0)
    assert (rate.value, rate.low) == (0.0, 0.0) and 0 < rate.high < 0.003
    assert mtbf.value == mtbf.high == math.inf and mtbf.low == pytest.approx(1 / rate.high)


def test_a_jobs_interruptions_scale() -> None:
    expected = expect_interruptions(bound_rate(419, 16384 * 54 * 24.0), 16384, 54 * 24.0)
    assert expected.value == pytest.approx(419)
    assert 380 < expected.low < 419 < expected.high < 460


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.5])
def test_weibull_shapes_are_found(shape: float) -> None:
    source = random.Random(7)
    covered = 0
    for _ in range(200):
        fit = fit_shape([source.weibullvariate(30.0, shape) for _ in range(60)])
        assert fit is not None
        covered += fit.low <= shape <= fit.high
    assert 0.84 <= covered / 200 <= 0.96


def test_too_few_times_have_no_shape() -> None:
    assert fit_shape([1, 2, 3, 4]) is None
    assert fit_shape([0.0] * 10) is None
    assert fit_shape([2.0] * 10) is None
