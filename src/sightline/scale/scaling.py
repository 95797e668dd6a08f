"""One program on more and more ranks: where its speed-up is lost, and what more ranks would give.

Efficiency at n ranks, relative to the fewest: of strong scaling (the same work on all) t₁n₁ / tₙn,
of weak scaling (the same work for each rank) t₁ / tₙ. It is the product of computation scaling
(useful time summed over ranks, of weak scaling per rank, at the fewest over at n) and of how load
balance, serialisation and transfer changed.

The forecast is a line through the job's length by least squares, of the models stated below the one
with the least corrected information criterion (AICc; Hurvich and Tsai, Biometrika 1989), and its
prediction interval is Student's. Where there are no more runs than parameters there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.scale.efficiency import Efficiency

FACTORS = ("computation", "load_balance", "serialisation", "transfer")
Term = Callable[[float], float]
# Amdahl (1967): a serial and a parallel part. With the log of ranks: collectives in trees. With
# ranks: those in rings, and what is done one after the other for each rank.
_STRONG: dict[str, tuple[Term, ...]] = {
    "a + b/n (Amdahl)": (lambda n: 1.0, lambda n: 1 / n),
    "a/n + b log2 n": (lambda n: 1 / n, math.log2),
    "a/n + b n": (lambda n: 1 / n, lambda n: n),
}
_WEAK: dict[str, tuple[Term, ...]] = {
    "a": (lambda n: 1.0,),
    "a + b log2 n": (lambda n: 1.0, math.log2),
    "a + b n": (lambda n: 1.0, lambda n: n),
}
LEVEL = 0.95


@dataclass(frozen=True)
class Point:
    """One job: its efficiency relative to the first, and the factors that make it."""

    ranks: int
    length_ns: int
    efficiency: float
    factors: dict[str, float]

    @property
    def largest_loss(self) -> str | None:
        """The factor that lost most since the first job; None where none is below 1."""
        worst = min(self.factors, key=lambda name: self.factors[name])
        return worst if self.factors[worst] < 1 else None


@dataclass(frozen=True)
class Forecast:
    """The efficiency at more ranks, with its interval where one can be told."""

    ranks: int
    model: str
    efficiency: float
    low: float | None
    high: float | None


def compare_jobs(jobs: Sequence[Efficiency], *, weak: bool) -> list[Point]:
    """A point for each job, the fewest ranks first."""
    jobs = sorted(jobs, key=lambda job: job.ranks)
    first = jobs[0]
    found = []
    for job in jobs:
        more = 1.0 if weak else job.ranks / first.ranks
        each = first.ranks / job.ranks if weak else 1.0
        work = first.useful_ns / (job.useful_ns * each) if job.useful_ns else 0.0
        factors = {name: _ratio(job, first, name) for name in FACTORS[1:]}
        efficiency = first.length_ns / (job.length_ns * more)
        found.append(Point(job.ranks, job.length_ns, efficiency, {"computation": work, **factors}))
    return found


def _ratio(job: Efficiency, first: Efficiency, name: str) -> float:
    before = getattr(first, name)
    return getattr(job, name) / before if before else 0.0


def forecast(points: Sequence[Point], ranks: int, *, weak: bool) -> Forecast | None:
    """What so many ranks would give; None of fewer than three different numbers of ranks."""
    n = np.array([p.ranks for p in points], float)
    if len(set(n)) < 3:
        return None
    times = np.array([p.length_ns for p in points], float)
    fits = [_fit(name, terms, n, times) for name, terms in (_WEAK if weak else _STRONG).items()]
    best = min(fits, key=lambda f: f.score)
    low, at, high = best.predict(ranks)
    more = 1.0 if weak else ranks / points[0].ranks

    def turn(length: float) -> float:
        return float(times[0] / (length * more)) if length > 0 else math.inf

    known = not math.isnan(low)
    return Forecast(
        ranks,
        best.name,
        turn(at),
        turn(high) if known else None,
        min(turn(low), 1.0 if weak else math.inf) if known else None,
    )


@dataclass(frozen=True)
class _Fitted:
    name: str
    terms: tuple[Term, ...]
    values: np.ndarray
    covariance: np.ndarray  # of the parameters, in units of the residual variance
    variance: float  # nan where no point is left over
    freedom: int
    score: float

    def predict(self, ranks: int) -> tuple[float, float, float]:
        """Low, middle and high of one more job's length, ns."""
        x = np.array([term(ranks) for term in self.terms])
        middle = float(x @ self.values)
        if not self.freedom:
            return math.nan, middle, math.nan
        from scipy.special import stdtrit

        spread = math.sqrt(self.variance * (1 + float(x @ self.covariance @ x)))
        reach = float(stdtrit(self.freedom, (1 + LEVEL) / 2)) * spread
        return middle - reach, middle, middle + reach


def _fit(name: str, terms: tuple[Term, ...], n: np.ndarray, times: np.ndarray) -> _Fitted:
    design = np.array([[term(x) for term in terms] for x in n])
    values = np.linalg.lstsq(design, times, rcond=None)[0]
    left = times - design @ values
    points, used = design.shape
    squares = max(float(left @ left), 1.0)  # lengths are whole ns
    freedom = points - used
    k = used + 1
    score = points * math.log(squares / points) + 2 * k
    score += 2 * k * (k + 1) / (points - k - 1) if points > k + 1 else 0.0
    # A part of the time that is negative is no model of it.
    if (values < 0).any():
        score = math.inf
    return _Fitted(
        name,
        terms,
        values,
        np.linalg.pinv(design.T @ design),
        squares / freedom if freedom else math.nan,
        freedom,
        score,
    )
