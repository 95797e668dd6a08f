"""Student's t against SciPy's."""

from __future__ import annotations

import math

import pytest

from sightline.core.algebra.student import find_probability, find_quantile

FREEDOM = (0.3, 1, 1.5, 2, 3, 4.7, 9, 30, 123.4, 1e3, 1e5)


@pytest.mark.parametrize("freedom", FREEDOM)
def test_the_distribution_is_scipys(freedom: float) -> None:
    from scipy.special import stdtr

    for t in (-80.0, -12.5, -3.0, -1.0, -1e-3, 0.0, 1e-3, 0.4, 2.0, 7.7, 50.0):
        assert find_probability(freedom, t) == pytest.approx(
            stdtr(freedom, t), rel=1e-10, abs=1e-300
        )


@pytest.mark.parametrize("freedom", FREEDOM)
def test_quantiles_are_scipys(freedom: float) -> None:
    from scipy.special import stdtrit

    for probability in (1e-4, 0.025, 0.1, 0.4, 0.5, 0.8, 0.95, 0.975, 0.9995):
        assert find_quantile(freedom, probability) == pytest.approx(
            stdtrit(freedom, probability), rel=1e-9
        )


def test_what_is_no_question() -> None:
    assert math.isnan(find_quantile(0, 0.9))
    assert math.isnan(find_quantile(3, 1.1))
    assert find_quantile(3, 1.0) == math.inf
    assert find_probability(3, -math.inf) == 0.0
