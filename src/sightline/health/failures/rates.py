"""Rates of failures with intervals: Poisson for counts, Weibull for the times between them.

Jeffreys' interval of a Poisson rate covers the truth as often as it says on average, where the
exact one of Garwood covers too often while counts are small (Brown, Cai, DasGupta 2003). Weibull:
maximum likelihood; a shape below 1 is failures that come in bunches or early, above 1 wear.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from sightline.core.optional_packages import load_package

LEVEL = 0.90
_FEW = 5  # times between failures, below which no shape is fitted
# Of the logarithm of a shape's estimate: 0.780 / sqrt(n) (Bain and Engelhardt, complete samples).
_SHAPE_ERROR = 0.780


class Interval(NamedTuple):
    """A value with its interval of 90 %; infinite where nothing bounds it."""

    value: float
    low: float
    high: float


def bound_rate(count: int, exposure: float) -> Interval:
    """Failures per unit of exposure (such as GPU-hours), of a count in that exposure."""
    special: Any = load_package(
        "scipy.special", "scipy", "intervals of failure rates are computed by SciPy"
    )
    tail = (1 - LEVEL) / 2
    low = 0.0 if count == 0 else float(special.gammaincinv(count + 0.5, tail)) / exposure
    high = float(special.gammaincinv(count + 0.5, 1 - tail)) / exposure
    return Interval(count / exposure, low, high)


def bound_mtbf(count: int, exposure: float) -> Interval:
    """Exposure between two failures: the rate turned round, in the unit of the exposure."""
    rate = bound_rate(count, exposure)
    return Interval(
        1 / rate.value if rate.value else math.inf,
        1 / rate.high,
        1 / rate.low if rate.low else math.inf,
    )


def fit_shape(gaps: Sequence[float]) -> Interval | None:
    """The Weibull shape of times between failures; None of fewer than five that are not zero."""
    logs = [math.log(gap) for gap in gaps if gap > 0]
    if len(logs) < _FEW or max(logs) - min(logs) < 1e-9:
        return None
    mean, largest = sum(logs) / len(logs), max(logs)

    def excess(shape: float) -> float:
        # Falls with the shape; powers are scaled by the largest gap, so that none overflows.
        weights = [math.exp(shape * (one - largest)) for one in logs]
        weighted = sum(w * one for w, one in zip(weights, logs, strict=True)) / sum(weights)
        return 1 / shape + mean - weighted

    low, high = 1e-3, 1e3
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    shape = math.sqrt(low * high)
    spread = math.exp(1.645 * _SHAPE_ERROR / math.sqrt(len(logs)))
    return Interval(shape, shape / spread, shape * spread)


def expect_interruptions(rate: Interval, units: float, hours: float) -> Interval:
    """Interruptions of a job, from a rate per unit and hour with its interval."""
    scale = units * hours
    return Interval(rate.value * scale, rate.low * scale, rate.high * scale)
