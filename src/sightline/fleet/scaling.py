"""One program on more and more ranks: where its speed-up is lost, and what more ranks would give.

Efficiency at n ranks, relative to the fewest: of strong scaling (the same work on all) t₁n₁ / tₙn,
of weak scaling (the same work for each rank) t₁ / tₙ. It is the product of computation scaling
(useful time summed over ranks, of weak scaling per rank, at the fewest over at n) and of how load
balance, serialisation and transfer changed.

The forecast is a curve through the job's length by least squares. From five numbers of ranks on,
models are the performance model normal form with one term (Calotoiu et al., "Using Automated
Performance Modeling to Find Scalability Bugs in Complex Codes", SC 2013): c + d n^i (log2 n)^j; of
strong scaling for ranks × length, so that perfect scaling is a constant. The constant is taken
unless the runs refuse it, else the best fit. The prediction interval is Student's, and holds those
of all models that the runs do not refuse, by the profile likelihood of the exponents as one more
parameter (Bates and Watts, Nonlinear Regression Analysis, 1988, section 6.1). With fewer numbers of
ranks models are three, of which the one with the least corrected information criterion counts
(AICc; Hurvich and Tsai, Biometrika 1989), and where there are no more runs than parameters there is
no interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sightline.core.algebra.student import find_quantile
from sightline.fleet.efficiency import Efficiency

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
# Exponents that Extra-P tries, too, and from how many points on: fewer fit nearly all of them.
_POWERS = ("0", "1/4", "1/3", "1/2", "2/3", "3/4", "1", "5/4", "4/3", "3/2", "2", "5/2", "3")
_LOGS = (0, 1, 2)
_LEAST_POINTS = 5


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
    if len(set(n)) >= _LEAST_POINTS:
        best, supported = _choose_models(
            [_fit(name, terms, n, times) for name, terms in _list_models(weak=weak).items()]
        )
    else:
        models = _WEAK if weak else _STRONG
        fits = [_fit(name, terms, n, times) for name, terms in models.items()]
        best = min(fits, key=lambda f: f.score)
        supported = [best]
    at = best.predict(ranks)[1]
    edges = [f.predict(ranks) for f in supported]
    low, high = min(e[0] for e in edges), max(e[2] for e in edges)
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


def _list_models(*, weak: bool) -> dict[str, tuple[Term, ...]]:
    """The normal form's models of the length, by how they are written."""
    shift = 0 if weak else 1  # ranks × length has one power more than the length
    models: dict[str, tuple[Term, ...]] = {("a" if weak else "a/n"): (_make_term(-shift, 0),)}
    for power in _POWERS:
        for logs in _LOGS:
            exponent = Fraction(power) - shift
            if Fraction(power) == 0 and logs == 0:
                continue
            name = " ".join(filter(None, ("b", _write_power(exponent), _write_logs(logs))))
            first = "a" if weak else "a/n"
            known = " (Amdahl)" if not weak and exponent == 0 and logs == 0 else ""
            terms = (_make_term(-shift, 0), _make_term(exponent, logs))
            models[f"{name} + {first}{known}"] = terms
    return models


def _choose_models(fits: list[_Fitted]) -> tuple[_Fitted, list[_Fitted]]:
    """The model to forecast with, and all that the runs do not refuse; `fits` begin with constant.

    Exponents are a third parameter: refused is what its F test refuses at `LEVEL`. F of one degree
    of freedom is Student's t squared.
    """
    possible = [f for f in fits if f.score < math.inf] or fits[:1]
    closest = min(possible, key=lambda f: f.squares)
    freedom = max(closest.freedom - 1, 1)
    most = closest.squares * (1 + find_quantile(freedom, (1 + LEVEL) / 2) ** 2 / freedom)
    supported = [f for f in possible if f.squares <= most]
    return (fits[0] if fits[0] in supported else closest), supported


def _make_term(exponent: Fraction | int, logs: int) -> Term:
    power = float(exponent)
    return lambda n: float(n**power * math.log2(n) ** logs)


def _write_power(exponent: Fraction) -> str:
    if exponent == 0:
        return ""
    if exponent == 1:
        return "n"
    return f"n^{exponent}" if exponent.denominator == 1 and exponent > 0 else f"n^({exponent})"


def _write_logs(logs: int) -> str:
    return ("", "log2 n", "log2² n")[logs]


@dataclass(frozen=True)
class _Fitted:
    name: str
    terms: tuple[Term, ...]
    values: np.ndarray
    covariance: np.ndarray  # of the parameters, in units of the residual variance
    variance: float  # nan where no point is left over
    freedom: int
    score: float
    squares: float  # of what is left over

    def predict(self, ranks: int) -> tuple[float, float, float]:
        """Low, middle and high of one more job's length, ns."""
        x = np.array([term(ranks) for term in self.terms])
        middle = float(x @ self.values)
        if not self.freedom:
            return math.nan, middle, math.nan
        spread = math.sqrt(self.variance * (1 + float(x @ self.covariance @ x)))
        reach = find_quantile(self.freedom, (1 + LEVEL) / 2) * spread
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
        squares,
    )
