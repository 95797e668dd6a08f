"""Is a difference real? A hierarchy of runs and steps, and tests that keep their word.

Steps inside a run follow one another and are not independent measurements, and one run differs from
the next of the same program (Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM
2013). So two sides differ by what their runs differ, and one run a side says only whether the two
recordings differ. All of it is done on logarithms: noise of computers is relative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from statistics import fmean

from sightline.core.algebra.student import find_probability, find_quantile

# SciPy is imported where it is asked: it takes longer to load than a history to be read.

# Chance of a false alarm, and of seeing a change of the size that is asked for.
ALPHA, POWER = 0.05, 0.8
# How runs of one program vary where the device is the limit, and where the host is: the standard
# deviation of the logarithm of a step's time, and its degrees of freedom; see guess_floor.
_IDLE_SHARE, _OF_DEVICE, _OF_HOST = 0.1, (0.030, 28), (0.072, 30)
# Fewer steps do not show how much each follows the one before: by simulation of steps that follow
# each other with 0.6, false alarms reach 6 % at eight steps and stay under 5 % from ten on
# (`make compare-proof` prints it).
MIN_STEPS = 10
_MAX_CORRELATION = 0.95
_MAX_RUNS = 1000  # of which it is said that so many would decide


@dataclass(frozen=True)
class Floor:
    """How runs of one program on one machine differ: variance of the log of a run's mean step."""

    variance: float
    freedom: int


@dataclass(frozen=True)
class Difference:
    """After over before, with its 95 % interval, or what it lacks.

    `ratio` is null where a side is zero or absent. `p_value` and the interval are null where
    nothing says how much the values vary. `level` is what the test speaks of: 'runs', that is
    programs; 'guess', programs that vary as others do; 'steps', that is only these two recordings.
    `freedom` are its degrees of freedom.
    """

    ratio: float | None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    level: str | None = None
    freedom: float | None = None

    @property
    def is_significant(self) -> bool:
        """Whether the test rejects that nothing changed."""
        return self.p_value is not None and self.p_value < ALPHA


@dataclass(frozen=True)
class Spread:
    """What the tests need of a run's values, one a step, in any unit.

    `apart` is the sum of their squared deviations from `mean`, `together` that of the products of
    the deviations of neighbors. Nine of ten values are at least `low`, and nine of ten at most
    `high`; None where that was not kept.
    """

    count: int
    mean: float
    apart: float = 0.0
    together: float = 0.0
    low: float | None = None
    high: float | None = None


def measure_spread(values: Sequence[float]) -> Spread:
    """The spread of a run's values, in the order of its steps; at least one."""
    mean, ordered = fmean(values), sorted(values)
    rest = [x - mean for x in values]
    out = len(ordered) // 10
    return Spread(
        len(values),
        mean,
        sum(map(mul, rest, rest)),
        sum(map(mul, rest[1:], rest)),
        ordered[out],
        ordered[-1 - out],
    )


def compare_runs(
    before: Sequence[Spread],
    after: Sequence[Spread],
    floor: Floor | None = None,
    guess: Floor | None = None,
) -> Difference:
    """Two sides, each a list of runs, each the spread of its steps' values (positive).

    `guess` counts where one run a side is there, and no floor, unless the steps of the two vary by
    more than they differ by. Steps that grow vary by much, and do not where nine of ten of one run
    are longer than nine of ten of the other.
    """
    means = [[run.mean for run in side] for side in (before, after)]
    if not all(side and all(m > 0 for m in side) for side in means):
        return Difference(None)
    logs = [[math.log(m) for m in side] for side in means]
    shift = fmean(logs[1]) - fmean(logs[0])
    between = estimate_floor(logs)
    if floor is not None:
        between = _pool(between, floor)
    if between is not None:
        error = between.variance * (1 / len(before) + 1 / len(after))
        return _judge(shift, error, between.freedom, "runs")
    within = _compare_steps(before[0], after[0])
    apart = None if within is None else _judge(shift, *within, "steps")
    is_within = apart is not None and not apart.is_significant
    if guess is None or (is_within and not _are_apart(before[0], after[0])):
        return apart or Difference(math.exp(shift))
    return _judge(shift, 2 * guess.variance, guess.freedom, "guess")


def _are_apart(one: Spread, other: Spread) -> bool:
    """Whether nine of ten values of one run are above nine of ten of the other."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.low > other.high or other.low > one.high


def guess_floor(idle: Sequence[float]) -> Floor:
    """How much runs of a program vary where nobody measured it, from their shares of idle time.

    `idle` are the runs' shares, 0 to 1. Three rounds of each of 29 programs on one machine with an
    H100, each timed without a profiler: the logarithms of a step's time vary by 3.0 % (standard
    deviation, pooled) where the device idles for under a tenth of it, else by 7.2 %.
    """
    deviation, freedom = _OF_DEVICE if max(idle) < _IDLE_SHARE else _OF_HOST
    return Floor(deviation**2, freedom)


def estimate_floor(sides: Sequence[Sequence[float]]) -> Floor | None:
    """How values vary around the mean of their side, over all sides; None without repetitions.

    Two values are exactly the same by chance only where nothing varies at all, as in simulations.
    """
    freedom = sum(len(side) - 1 for side in sides)
    if freedom < 1:
        return None
    squares = sum((value - fmean(side)) ** 2 for side in sides for value in side)
    return Floor(squares / freedom, freedom)


def _pool(own: Floor | None, floor: Floor) -> Floor:
    if own is None:
        return floor
    freedom = own.freedom + floor.freedom
    return Floor((own.variance * own.freedom + floor.variance * floor.freedom) / freedom, freedom)


def _judge(shift: float, error: float, freedom: float, level: str) -> Difference:
    """A t-test of a shift of logarithms whose variance is `error`."""
    # Values that came out of floating point as one and the same differ in the last digits.
    scale = math.sqrt(error)
    if scale <= 1e-12:
        ratio, p_value = math.exp(shift), 1.0 if abs(shift) <= 1e-12 else 0.0
        return Difference(ratio, ratio, ratio, p_value, level, freedom)
    p_value = 2 * find_probability(freedom, -abs(shift) / scale)
    reach = find_quantile(freedom, 1 - ALPHA / 2) * scale
    low, high = math.exp(shift - reach), math.exp(min(shift + reach, 700.0))
    return Difference(math.exp(shift), low, high, p_value, level, freedom)


def _compare_steps(before: Spread, after: Spread) -> tuple[float, float] | None:
    """Variance of the log ratio of two runs' means and its degrees of freedom, from their steps."""
    if min(before.count, after.count) < MIN_STEPS:
        return None
    follows = estimate_autocorrelation([before, after])
    one, other = (_measure_mean(run, follows) for run in (before, after))
    error = one[0] + other[0]
    if error == 0:
        return 0.0, one[1] + other[1]
    # Welch and Satterthwaite: how many values stand behind a sum of two variances.
    return error, error**2 / (one[0] ** 2 / one[1] + other[0] ** 2 / other[1])


def _measure_mean(run: Spread, follows: float) -> tuple[float, float]:
    """Relative variance of a run's mean, and its degrees of freedom, for steps that follow so.

    n steps that follow each other are worth n (1 - r) / (1 + r) independent ones, and vary less
    around their own mean than around the true one.
    """
    n = run.count
    factor = (1 + follows) / (1 - follows)
    own = run.apart / (n - 1)
    own /= max(1 - (factor - 1) / (n - 1), 0.2)
    return own * factor / n / run.mean**2, max(n / factor - 1, 1.0)


def estimate_autocorrelation(runs: Sequence[Spread]) -> float:
    """How much a step follows the one before, 0 to 0.95, over all runs: on the safe side.

    The estimate of short series is too low by (1 + 4 r) / n (Marriott and Pope, "Bias in the
    estimation of autocorrelations", Biometrika 41, 1954); what is added besides is half of its
    standard error, without which ten steps keep no word (`make compare-proof`).
    """
    apart = sum(run.apart for run in runs)
    if apart == 0:
        return 0.0
    n = sum(run.count for run in runs) / len(runs)
    raw = (n * sum(run.together for run in runs) / apart + 1) / max(n - 4, 1)
    safe = raw + math.sqrt(max(1 - raw * raw, 0.05) / (n * len(runs))) / 2
    return min(max(safe, 0.0), _MAX_CORRELATION)


def smallest_visible(before: int, after: int, floor: Floor) -> float:
    """The relative change that so many runs a side would see four times out of five."""
    at = find_quantile(floor.freedom, 1 - ALPHA / 2) + find_quantile(floor.freedom, POWER)
    return math.expm1(at * math.sqrt(floor.variance * (1 / before + 1 / after)))


def count_runs_needed(change: float, floor: Floor) -> int | None:
    """How many runs a side would see a relative change four times out of five; None over 1000.

    `change` is a share, as 0.03; the runs vary as in `floor`.
    """
    shift = abs(math.log1p(change))
    if shift == 0:
        return None
    for runs in range(2, _MAX_RUNS + 1):
        own = Floor(floor.variance, 2 * runs - 2)
        if math.log1p(smallest_visible(runs, runs, own)) <= shift:
            return runs
    return None


def adjust_p_values(values: Sequence[float | None]) -> list[float | None]:
    """False discovery rates (Benjamini and Hochberg 1995) of many tests; null where none was made.

    Of all differences with an answer up to q, a share of at most q are none.
    """
    tested = sorted((p, at) for at, p in enumerate(values) if p is not None)
    answer: list[float | None] = [None] * len(values)
    least = 1.0
    for rank, (p, at) in reversed(list(enumerate(tested, 1))):
        least = min(least, p * len(tested) / rank)
        answer[at] = least
    return answer
