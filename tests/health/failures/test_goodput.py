"""Checkpoint intervals and goodput against a simulated job."""

from __future__ import annotations

import math

import pytest

from sightline.health.failures.goodput import (
    choose_daly,
    choose_young,
    find_best,
    predict_goodput,
    simulate_goodput,
)


@pytest.mark.parametrize("mtbf", [30.0, 180.0, 2000.0])
@pytest.mark.parametrize("cost", [0.5, 2.0, 20.0])
@pytest.mark.parametrize("restart", [0.0, 10.0, 60.0])
def test_formula_and_simulation_agree_within_two_per_cent(
    mtbf: float, cost: float, restart: float
) -> None:
    for interval in (choose_young(cost, mtbf), choose_daly(cost, mtbf), 0.4 * mtbf):
        predicted = predict_goodput(interval, cost, restart, mtbf)
        # The less work is kept, the more failures it takes to know how much.
        failures = min(600_000, int(20_000 / predicted))
        simulated = simulate_goodput(interval, cost, restart, mtbf, failures=failures)
        assert simulated == pytest.approx(predicted, rel=0.02), (interval, predicted)


@pytest.mark.parametrize(("cost", "mtbf"), [(2.0, 185.0), (0.1, 1e5), (30.0, 40.0)])
def test_no_interval_is_better_than_the_one_that_is_found(cost: float, mtbf: float) -> None:
    best = find_best(cost, 5.0, mtbf)
    most = predict_goodput(best, cost, 5.0, mtbf)
    for factor in (0.5, 0.8, 0.95, 1.05, 1.25, 2.0):
        assert predict_goodput(best * factor, cost, 5.0, mtbf) <= most
    # Daly's is within a thousandth of the best where checkpoints are cheap against failures.
    if cost < mtbf / 20:
        assert predict_goodput(choose_daly(cost, mtbf), cost, 5.0, mtbf) == pytest.approx(
            most, rel=1e-3
        )


def test_formulas_by_hand() -> None:
    assert choose_young(2, 100) == 20
    # 20 (1 + sqrt(0.01) / 3 + 0.01 / 9) - 2
    assert choose_daly(2, 100) == pytest.approx(20 * (1 + 0.1 / 3 + 0.01 / 9) - 2)
    assert choose_daly(300, 100) == 100
    assert predict_goodput(9, 1, 5, math.inf) == 0.9
    assert predict_goodput(1e9, 1, 5, 1.0) == 0.0
