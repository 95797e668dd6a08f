"""Changes of level: found where they were planted, and not where there is none."""

from __future__ import annotations

import math
import random

import pytest

from sightline.core.algebra.change_points import FEWEST, FOLLOWS, find_changes


def simulate(
    dice: random.Random, n: int, follows: float = 0.0, noise: float = 0.01, **shifts: float
) -> list[float]:
    """Values around 100, each following the one before; from at<N> on times a factor."""
    drift, values = dice.gauss(0, 1), []
    for number in range(n):
        drift = follows * drift + math.sqrt(1 - follows**2) * dice.gauss(0, 1)
        factor = math.prod(f for name, f in shifts.items() if number >= int(name[2:]))
        values.append(100 * math.exp(noise * drift) * factor)
    return values


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize("follows", [0.0, FOLLOWS])
def test_flat_series_are_flat(n: int, follows: float) -> None:
    """At most 5 % of 100, and so many by luck (three sigma: 11.5 %)."""
    dice = random.Random(f"{n} {follows}")
    assert sum(bool(find_changes(simulate(dice, n, follows))) for _ in range(100)) <= 11


@pytest.mark.campaign
@pytest.mark.parametrize("n", [20, 50, 100, 200])
@pytest.mark.parametrize("follows", [0.0, 0.3, FOLLOWS])
def test_many_flat_series_are_flat(n: int, follows: float) -> None:
    """At most 5 % of 2,000, and so many by luck (three sigma: 6.5 %)."""
    dice = random.Random(f"many {n} {follows}")
    assert sum(bool(find_changes(simulate(dice, n, follows))) for _ in range(2000)) <= 130


def test_outliers_are_no_change() -> None:
    """One value in thirty is a third higher; at most 5 % of 100 and luck."""
    dice = random.Random(2)
    alarms = 0
    for _ in range(100):
        values = [v * (1.3 if dice.random() < 1 / 30 else 1) for v in simulate(dice, 60)]
        alarms += bool(find_changes(values))
    assert alarms <= 11


@pytest.mark.parametrize(("n", "follows"), [(40, 0.0), (60, 0.3), (200, FOLLOWS)])
def test_three_percent_are_found(n: int, follows: float) -> None:
    """Of 20 series nearly all, where the noise is 1 %: the place is right to three values."""
    dice = random.Random(n)
    found = 0
    for _ in range(20):
        at = dice.randrange(n // 3, 2 * n // 3)
        changes = find_changes(simulate(dice, n, follows, **{f"at{at}": 1.03}))
        found += any(abs(change.at - at) <= 3 for change in changes)
    assert found >= 17


def test_levels_place_and_range() -> None:
    """Ten of 100, then ten of 110, each off by one in turn: worked out by hand."""
    values = [99.0, 101.0] * 5 + [109.0, 111.0] * 5
    (change,) = find_changes(values)
    assert (change.at, change.first, change.last) == (10, 10, 10)
    assert change.before == pytest.approx(math.sqrt(99 * 101))
    assert change.ratio == pytest.approx(math.sqrt(109 * 111 / 99 / 101))
    assert change.p_value == 0.001
    assert not change.went_away


def test_a_place_that_is_not_sure_is_a_range() -> None:
    """The value between the levels may belong to either."""
    values = [99.0, 101.0] * 5 + [105.0] + [109.0, 111.0] * 5
    (change,) = find_changes(values)
    assert (change.first, change.last) == (10, 11)


def test_what_went_away() -> None:
    values = simulate(random.Random(4), 60, at20=1.1, at40=1 / 1.1)
    assert [(c.at, c.went_away) for c in find_changes(values)] == [(20, True), (40, False)]


def test_what_stays_after_a_second_change() -> None:
    values = simulate(random.Random(5), 60, at20=1.1, at40=1.1)
    assert [(c.at, c.went_away) for c in find_changes(values)] == [(20, False), (40, False)]


def test_answers_do_not_depend_on_the_unit_or_luck() -> None:
    values = simulate(random.Random(6), 50, at25=1.03)
    found = find_changes(values)
    assert found == find_changes(values)
    scaled = find_changes([v * 1e9 for v in values])
    assert [(c.at, c.p_value) for c in scaled] == [(c.at, c.p_value) for c in found]


def test_zeros_have_levels_and_no_ratio() -> None:
    """A kernel that appeared: values that have no logarithm."""
    (change,) = find_changes([0.0] * 10 + [5.0, 6.0] * 5)
    assert (change.at, change.before, change.after, change.ratio) == (10, 0.0, 5.5, None)


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 40, [1.0, 2.0] * ((FEWEST - 1) // 2)])
def test_nothing_to_search(values: list[float]) -> None:
    assert find_changes(values) == []
