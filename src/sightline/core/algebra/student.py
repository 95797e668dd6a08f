"""Student's t: its distribution and its quantiles, for any real degrees of freedom.

SciPy has both. It is 140 MB, half of all else that a reader of recordings needs, and these two
functions are what `compare`, `lab`, `scaling` and a recorder's cost ask of it: so they stand here,
and are tested against it (tests/core/algebra/test_student.py).
"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
_MOST_TERMS = 10_000
_MOST_HALVINGS = 2_000  # of the range of floats: fewer are needed


def find_probability(freedom: float, t: float) -> float:
    """How likely a value is not above t; as scipy.special.stdtr."""
    if math.isnan(t) or not freedom > 0:
        return math.nan
    if t == 0:
        return 0.5
    if math.isinf(t):
        return 1.0 if t > 0 else 0.0
    if math.isinf(freedom):
        return 0.5 * math.erfc(-t / math.sqrt(2))
    tail = 0.5 * _integrate_beta(
        freedom / 2, 0.5, freedom / (freedom + t * t), t * t / (freedom + t * t)
    )
    return 1.0 - tail if t > 0 else tail


@lru_cache(maxsize=1024)  # few are asked for, again and again
def find_quantile(freedom: float, probability: float) -> float:
    """The t that a value is not above with that probability; as scipy.special.stdtrit."""
    if not freedom > 0 or not 0 <= probability <= 1:
        return math.nan
    if probability in (0.0, 1.0):
        return math.copysign(math.inf, probability - 0.5)
    if probability == 0.5:
        return 0.0
    tail = min(probability, 1 - probability)  # of which the distribution is known to all digits
    low, high = -1.0, 0.0
    while find_probability(freedom, low) > tail and low > -1e300:
        low, high = low * 2, low
    for _ in range(_MOST_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if find_probability(freedom, middle) < tail:
            low = middle
        else:
            high = middle
    return low if probability < 0.5 else -low


def _integrate_beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularized incomplete beta function at x; `rest` is 1 - x, without its rounding.

    By its continued fraction, DLMF 8.17.22 (https://dlmf.nist.gov/8.17#v), on the side where that
    converges fast (8.17.4).
    """
    if x <= 0:
        return 0.0
    if rest <= 0:
        return 1.0
    log = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    )
    if x < (a + 1) / (a + b + 2):
        return math.exp(log) * _sum_fraction(a, b, x) / a
    return 1.0 - math.exp(log) * _sum_fraction(b, a, rest) / b


def _sum_fraction(a: float, b: float, x: float) -> float:
    """The fraction of 8.17.22, by Lentz's method (Thompson, Barnett, J. Comput. Phys. 64, 1986)."""
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for term in (even, odd):
            d = 1.0 + term * d
            c = 1.0 + term / c
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = c if abs(c) > _TINY else _TINY
            value *= d * c
        if abs(value - before) <= 1e-16 * abs(value):
            break
    return value
