"""Intervals that hold at every look: by the published formula, and by what it promises."""

from __future__ import annotations

import math

import pytest

from sightline.compare.sequential import MIN_ROUNDS, bound_difference, count_rounds_needed


def _integrate_likelihood(n: int, t: float, width: float) -> float:
    """The marginal likelihood ratio of a t statistic, effect ~ N(0, width²), from its definition.

    The noncentral t density over the central one, integrated numerically over the effect.
    """
    from scipy.integrate import quad  # takes a second, of each worker that loads this file

    freedom = n - 1
    scale = t / math.sqrt(freedom)

    def density(shift: float) -> float:
        """Noncentral t at t, up to what both share: an integral over the noise's scale w."""
        return float(
            quad(
                lambda w: w**freedom * math.exp(-(w * w) / 2 - (w * scale - shift) ** 2 / 2), 0, 12
            )[0]
        )

    def weigh(effect: float) -> float:
        prior = math.exp(-((effect / width) ** 2) / 2) / (width * math.sqrt(2 * math.pi))
        return density(math.sqrt(n) * effect) * prior

    return float(quad(weigh, -20, 20, limit=200)[0]) / density(0.0)


@pytest.mark.parametrize("n", [4, 10])
def test_the_end_of_the_interval_is_where_the_mixture_reaches_one_in_alpha(n: int) -> None:
    """At the t of an interval's end the mixture over effects of variance 10 is 1/0.05."""
    values = [0.1 + 0.01 * (-1) ** k * (1 + k / n) for k in range(n)]
    interval = bound_difference(values, 0.05)
    t = interval.reach * math.sqrt(n) / interval.spread
    assert _integrate_likelihood(n, t, math.sqrt(10)) == pytest.approx(20, rel=1e-3)


def test_wider_than_a_test_of_fixed_size_and_narrower_with_more() -> None:
    values = [0.02, 0.03, 0.025, 0.035, 0.03, 0.02]
    reaches = [bound_difference(values * k, 0.05).reach for k in (1, 2, 4)]
    assert reaches == sorted(reaches, reverse=True)
    fixed = 2.571 * bound_difference(values, 0.05).spread / math.sqrt(6)  # t of 5 at 97.5 %
    assert reaches[0] > fixed
    assert bound_difference(values, 0.01).reach > reaches[0]


def test_too_few_say_nothing() -> None:
    for count in range(1, MIN_ROUNDS):
        interval = bound_difference([0.1] * count, 0.05)
        assert interval.reach == math.inf
        assert not interval.excludes_zero


def test_values_that_never_vary_are_known() -> None:
    interval = bound_difference([0.1, 0.1, 0.1, 0.1], 0.05)
    assert (interval.low, interval.high) == (pytest.approx(0.1), pytest.approx(0.1))
    assert interval.excludes_zero
    assert not bound_difference([0.0] * 4, 0.05).excludes_zero


def test_rounds_needed_are_the_first_that_suffice() -> None:
    """So many rounds of that spread reach no further; one fewer does."""
    needed = count_rounds_needed(0.02, 0.01, 0.05)
    assert needed is not None

    def reach(n: int) -> float:
        apart = 0.02 * math.sqrt((n - 1) / n)
        return bound_difference([apart * (-1) ** k for k in range(n)], 0.05).reach

    even = needed + needed % 2
    assert reach(even) <= 0.01 < reach(needed - 1 - (needed - 1) % 2)
    assert count_rounds_needed(1.0, 1e-4, 0.05) is None
