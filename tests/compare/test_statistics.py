"""Statistics: worked out by hand or by SciPy, and false alarms counted on simulated runs."""

from __future__ import annotations

import math
import random
import re

import pytest

from sightline.compare.statistics import (
    Difference,
    Floor,
    adjust_p_values,
    compare_runs,
    count_runs_needed,
    estimate_autocorrelation,
    estimate_floor,
    measure_spread,
    smallest_visible,
)
from sightline.compare.verdict import reach_verdict


def _compare(
    before: list[list[float]], after: list[list[float]], *more: Floor | None
) -> Difference:
    one, other = ([measure_spread(run) for run in side] for side in (before, after))
    return compare_runs(one, other, *more)


def _follow(dice: random.Random, n: int, rho: float, mean: float = 100.0) -> list[float]:
    """Steps of standard deviation 1, each following the one before with `rho`."""
    x, steps = dice.gauss(0, 1), []
    for _ in range(n):
        x = rho * x + math.sqrt(1 - rho * rho) * dice.gauss(0, 1)
        steps.append(mean + x)
    return steps


def test_several_runs_are_a_t_test_of_their_means() -> None:
    """The same as SciPy's, on the logarithms of the runs' means."""
    from scipy import stats  # takes a second, of each worker that loads this file

    before, after = [[10.0, 12.0], [11.0, 12.0], [10.5, 10.5]], [[13.0], [12.0], [14.0]]
    found = _compare(before, after)
    logs = [[math.log(sum(r) / len(r)) for r in side] for side in (before, after)]
    expected = stats.ttest_ind(logs[1], logs[0])
    assert found.p_value == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval()
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert (found.level, found.freedom) == ("runs", 4)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("n", [10, 30])
def test_flat_steps_are_flat(rho: float, n: int) -> None:
    """At most 5 % of 400 pairs of runs of one program, and so many by luck (three sigma: 8.3 %)."""
    dice = random.Random(f"{rho} {n}")
    alarms = sum(
        _compare([_follow(dice, n, rho)], [_follow(dice, n, rho)]).is_significant
        for _ in range(400)
    )
    assert alarms <= 33


def test_runs_that_differ_by_themselves() -> None:
    """Runs are off by 1 %, steps by 0.2 %: one run a side differs, three are not other program."""
    dice = random.Random(7)

    def record(runs: int) -> list[list[float]]:
        return [[dice.gauss(100, 0.2) * off for _ in range(20)] for off in
                [1 + dice.gauss(0, 0.01) for _ in range(runs)]]  # fmt: skip

    single = [_compare(record(1), record(1)) for _ in range(200)]
    assert {d.level for d in single} == {"steps"}
    assert sum(d.is_significant for d in single) > 150
    several = [_compare(record(3), record(3)) for _ in range(400)]
    assert {d.level for d in several} == {"runs"}
    assert sum(d.is_significant for d in several) <= 33


def test_a_change_is_seen() -> None:
    dice = random.Random(3)
    seen = sum(
        _compare(
            [_follow(dice, 20, 0.3) for _ in range(3)],
            [_follow(dice, 20, 0.3, 105.0) for _ in range(3)],
        ).is_significant
        for _ in range(100)
    )
    assert seen == 100


def test_one_run_with_a_floor_is_judged_by_it() -> None:
    """Runs vary by 1 %, as eleven showed: 2 % between two of them is nothing, 10 % is."""
    from scipy import stats

    floor = Floor(0.01**2, 10)
    assert not _compare([[100.0]], [[102.0]], floor).is_significant
    found = _compare([[100.0]], [[110.0]], floor)
    assert found.is_significant
    assert found.p_value == pytest.approx(2 * stats.t.sf(math.log(1.1) / (0.01 * 2**0.5), 10))


def test_steps_that_grow_are_compared_by_where_they_lie() -> None:
    """4, 5 … 18 ms against 1.5 ms: each step is shorter, though the steps vary by more."""
    guess = Floor(0.072**2, 30)
    growing, flat = [float(n) for n in range(4, 19)], [1.5, 1.4] * 8
    seen = _compare([growing], [flat], None, guess)
    assert seen.level == "guess" and seen.is_significant
    # Where they begin as short as the others are, the two recordings say nothing.
    hidden = _compare([[float(n) for n in range(1, 19)]], [[3.5, 3.4] * 8], None, guess)
    assert hidden.level == "steps" and not hidden.is_significant


def test_few_steps_and_one_run_are_not_judged() -> None:
    assert _compare([[1.0] * 9], [[2.0] * 9]).p_value is None
    assert _compare([[0.0]], [[2.0]]).ratio is None


def test_what_never_varies() -> None:
    """Simulated runs are equal to the last digit: any difference is one, and none is none."""
    assert _compare([[5.0]] * 2, [[5.0]] * 2).p_value == 1
    assert _compare([[5.0]] * 2, [[5.1]] * 2).p_value == 0


def test_autocorrelation_is_estimated_on_the_safe_side() -> None:
    dice = random.Random(11)
    for rho in (0.0, 0.3, 0.6):
        found = [
            estimate_autocorrelation([measure_spread(_follow(dice, 20, rho)) for _ in range(2)])
            for _ in range(200)
        ]
        assert rho <= sum(found) / len(found) <= rho + 0.25


def test_floor_is_the_pooled_variance() -> None:
    floor = estimate_floor([[1.0, 3.0], [10.0, 10.0, 13.0]])
    assert floor is not None
    assert floor.freedom == 3
    assert floor.variance == pytest.approx((1 + 1 + 1 + 1 + 4) / 3)
    assert estimate_floor([[1.0], [2.0]]) is None


def test_runs_needed_are_enough_and_one_less_is_not() -> None:
    floor = Floor(0.01**2, 4)
    runs = count_runs_needed(0.02, floor)
    assert runs is not None
    assert smallest_visible(runs, runs, Floor(floor.variance, 2 * runs - 2)) <= 0.02
    fewer = runs - 1
    assert smallest_visible(fewer, fewer, Floor(floor.variance, 2 * fewer - 2)) > 0.02
    assert count_runs_needed(0.0, floor) is None


def test_false_discovery_rates_are_scipys() -> None:
    from scipy import stats

    values = [0.001, 0.2, 0.03, 0.04, 0.9]
    expected = list(stats.false_discovery_control(values))
    found = adjust_p_values([values[0], None, *values[1:]])
    assert found[1] is None
    assert [found[0], *found[2:]] == pytest.approx(expected)


@pytest.mark.parametrize("change", [n / 100 for n in range(-60, 80, 4)])
def test_a_verdict_and_its_reason_say_one_thing(change: float) -> None:
    """Nothing is called faster or slower beside a sentence that such a change cannot be shown."""
    guess = Floor(0.072**2, 30)
    sides = [[100.0, 100.1] * 8], [[100 * (1 + change), 100.1 * (1 + change)] * 8]
    found = _compare(*sides, None, guess)
    runs = tuple([measure_spread(run) for run in side] for side in sides)
    verdict = reach_verdict([], found, runs, guess)
    assert verdict.visible_pct is not None or change == 0
    for said in verdict.reasons:
        limit = re.search(r"cannot show changes under about ([\d.]+) %", said)
        if verdict.word in ("faster", "slower") and limit is not None:
            assert abs(100 * change) >= float(limit[1]) - 0.05
