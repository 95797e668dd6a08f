"""Where a series of measurements changes its level, with false alarms as rare as is asked for.

The split that divides a series best is always found; whether it is more than luck is asked of
series of which nothing changed: the same innovations in another order, searched in the same way
(permutation of the maximum statistic). Measurements that follow one another look like changes, so
the statistic is divided by what the series' own autocorrelation makes of it, and the permuted
series follow each other, too: by as much as is least favorable, up to `FOLLOWS`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ALPHA = 0.05
# A level is one of three values at least: two may be luck of one machine (ours); and of fewer than
# twelve values nothing is said of how they follow each other (ours, by simulation).
LEAST, FEWEST = 3, 12
# How much values may follow each other for the rate of false alarms to hold: they grow with it, so
# that what holds at the largest holds below. Twenty values show their innovations only roughly, so
# it is asked a little beyond (`make history-proof` prints what comes of it).
FOLLOWS, _ASKED = 0.6, 0.65
_MOST_FOLLOWS = 0.95
# For each 15 values one more split is taken out before it is asked how they vary and follow, up to
# four: so a level that rises and falls again is no noise (ours, by simulation).
_EACH, _MOST_FITS = 15, 4
_PERMUTATIONS = 999
# A change has gone away where a later level is nearer to the one before than half the change.
_BACK = 0.5
# The 95 % quantile of chi-squared with one degree of freedom: places that explain the series as
# well as the best one does.
_AS_GOOD = 3.84

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """A change of level between value `at` - 1 and `at` of a series, counted from 0.

    `first` and `last` are the earliest and latest place that explain the series as well. `before`
    and `after` are the levels, geometric means where all values are positive. `went_away` says
    that a later level is that of before again.
    """

    at: int
    first: int
    last: int
    before: float
    after: float
    p_value: float
    went_away: bool = False

    @property
    def ratio(self) -> float | None:
        """After over before; None where that is not a number."""
        return self.after / self.before if self.before > 0 and self.after > 0 else None


def find_changes(values: Sequence[float]) -> list[Change]:
    """The changes of level in a series, in its order; finite values, evenly meaningful.

    Of a series without a change at most ALPHA have one. What is found is divided again, each half
    with half of that chance.
    """
    series: Array = np.asarray(values, dtype=np.float64)
    if len(series) < FEWEST:
        return []
    positive = bool((series > 0).all())
    scaled = np.log(series) if positive else series
    found = dict(_split(scaled, 0, len(scaled), ALPHA))
    places = _settle(scaled, sorted(found))
    levels = _measure_levels(scaled, places)
    changes = []
    for number, (at, place) in enumerate(zip(sorted(found), places, strict=True)):
        since = places[number - 1] if number else 0
        until = places[number + 1] if number + 1 < len(places) else len(scaled)
        first, last = _find_range(scaled[since:until], place - since)
        before, after = levels[number], levels[number + 1]
        changes.append(
            Change(
                place,
                since + first,
                since + last,
                math.exp(before) if positive else before,
                math.exp(after) if positive else after,
                found[at],
                _is_back(levels, number),
            )
        )
    return changes


def _split(series: Array, since: int, until: int, alpha: float) -> list[tuple[int, float]]:
    """Places and p-values of the changes in a part of the series."""
    part = series[since:until]
    if len(part) < FEWEST or np.ptp(part) == 0:
        return []
    at, p_value = _test_split(part)
    if p_value > alpha:
        return []
    return [
        *_split(series, since, since + at, alpha / 2),
        (since + at, p_value),
        *_split(series, since + at, until, alpha / 2),
    ]


def _test_split(series: Array) -> tuple[int, float]:
    """The best split of a series, and how often series without a change have as good a one.

    Above ALPHA it is at least as often.
    """
    (at,), (score,), (follows,), rest = _search(series[None, :])
    own = rest[0]
    innovations = own[1:] - follows * own[:-1]
    # Always the same dice: the same series has the same answer.
    dice = np.random.default_rng(0)
    shuffled = dice.permuted(
        np.tile(np.append(innovations, innovations.mean()), (_PERMUTATIONS, 1)), axis=1
    )
    worst = 0.0
    for grade in (max(_ASKED, float(follows)), FOLLOWS / 2, 0.0):
        _, scores, _, _ = _search(_let_follow(shuffled, grade))
        worst = max(worst, (1 + int((scores >= score).sum())) / (1 + _PERMUTATIONS))
        if worst > ALPHA:
            break
    return int(at), worst


def _let_follow(innovations: Array, follows: float) -> Array:
    """Series of which each value follows the one before by so much."""
    series = innovations.copy()
    series[:, 0] /= math.sqrt(1 - follows**2)
    for at in range(1, series.shape[1]):
        series[:, at] += follows * series[:, at - 1]
    return series


def _search(series: Array) -> tuple[NDArray[np.int64], Array, Array, Array]:
    """Of each row the best split, its score, how values follow each other, and what is left.

    The score is what the split explains over what is left, as F statistics are, divided by
    (1 + r) / (1 - r) for values that follow each other by r. Further changes would look like noise
    that does: what is left is so when more splits are taken out, as many as a series may well have.
    """
    n = series.shape[1]
    at, gained, rest = _take_split(series - series.mean(axis=1, keepdims=True))
    fits = 1 + min(n // _EACH, _MOST_FITS)
    for _ in range(fits - 1):
        _, _, rest = _take_split(rest)
    apart = np.maximum(_sum_squares(rest), 1e-12 * gained)
    follows = _correct(rest, fits)
    return at, gained / apart * (n - 2) * (1 - follows) / (1 + follows), follows, rest


def _take_split(centered: Array) -> tuple[NDArray[np.int64], Array, Array]:
    """The best split of each row of mean zero, the sum of squares that it explains, the rest."""
    rows, n = np.arange(len(centered)), centered.shape[1]
    sums = np.cumsum(centered, axis=1)[:, LEAST - 1 : n - LEAST]
    sizes = np.arange(LEAST, n - LEAST + 1)
    explained = sums**2 * (n / (sizes * (n - sizes)))
    best = explained.argmax(axis=1)
    at, total = sizes[best], sums[rows, best]
    first, second = (total / at)[:, None], (-total / (n - at))[:, None]
    rest = centered - np.where(np.arange(n) < at[:, None], first, second)
    return at, explained[rows, best], rest


def _sum_squares(rows: Array) -> Array:
    found: Array = np.einsum("ij,ij->i", rows, rows)
    return found


def _correct(rest: Array, fits: int) -> Array:
    """How values follow each other, from the rest of so many splits, without its bias.

    Each fitted mean takes (1 + 4 r) / n of it (Marriott and Pope, Biometrika 41, 1954).
    """
    n = rest.shape[1]
    apart = np.maximum(_sum_squares(rest), np.finfo(np.float64).tiny)
    raw = np.einsum("ij,ij->i", rest[:, 1:], rest[:, :-1]) / apart
    found: Array = np.clip((n * raw + fits + 1) / max(n - 4 * (fits + 1), 1), 0, _MOST_FOLLOWS)
    return found


def _settle(series: Array, places: Sequence[int]) -> list[int]:
    """Each change's best place between its neighbors, which were not known when it was found."""
    settled = list(places)
    for number in range(len(settled)):
        since = settled[number - 1] if number else 0
        until = settled[number + 1] if number + 1 < len(settled) else len(series)
        if until - since >= 2 * LEAST:
            settled[number] = since + int(_search(series[None, since:until])[0][0])
    return settled


def _measure_levels(series: Array, places: Sequence[int]) -> list[float]:
    return [float(part.mean()) for part in np.split(series, list(places))]


def _find_range(series: Array, best: int) -> tuple[int, int]:
    """The first and last place of a change that explain a series as well as the best one."""
    n = len(series)
    centered = series - series.mean()
    sums, sizes = np.cumsum(centered)[:-1], np.arange(1, n)
    between = sums**2 * (n / (sizes * (n - sizes)))
    _, _, (follows,), _ = _search(series[None, :]) if n >= 2 * LEAST else (0, 0, (0.0,), 0)
    apart = float((centered**2).sum() - between[best - 1]) / max(n - 2, 1)
    spread = apart * (1 + follows) / (1 - follows)
    good = sizes[between >= between[best - 1] - _AS_GOOD * spread]
    return int(min(good.min(), best)), int(max(good.max(), best))


def _is_back(levels: Sequence[float], number: int) -> bool:
    """Whether the last level is nearer to that before a change than half the change."""
    before, after, last = levels[number], levels[number + 1], levels[-1]
    return abs(last - before) < _BACK * abs(after - before)
