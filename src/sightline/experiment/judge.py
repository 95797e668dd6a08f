"""What rounds come to: which only warmed up, how variants differ, and whether that is enough.

Values are logarithms, one a variant, in a list a round. Whether a round counts is decided by what
all its variants took together, which says nothing of who was faster.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from sightline.compare.sequential import Interval, bound_difference, count_rounds_needed

ALPHA = 0.05
# Without --until: known well enough is a difference to a third of itself, or to 1 % (ours: what
# people act upon; Kalibera and Jones 2013 report speed-ups of 1 % as the least that papers claim).
NEAR, THIRD = math.log(1.01), 1 / 3
# At most three first rounds warm up, and as many others must show what is usual; hyperfine's and
# pyperf's manuals advise one to three.
_MOST_WARMUP, _LEAST_AFTER = 3, 3
# Out of line is what lies over the median of the others by four of their standard deviations (a
# normal value does so once in 30,000), estimated from the median absolute deviation (Hampel 1974),
# and by 2 % (ours).
_DEVIATIONS, _MAD_TO_SIGMA, _LEAST_EXCESS = 4.0, 1.4826, math.log(1.02)


@dataclass(frozen=True)
class Aim:
    """When it is enough: `until` is a reach of the interval as a logarithm; null: `NEAR`, `THIRD`.

    `alpha` is the chance that any of all intervals ever misses.
    """

    until: float | None = None
    alpha: float = ALPHA

    def share(self, variants: int) -> float:
        """The part of alpha of each pair (Bonferroni)."""
        return self.alpha / (variants * (variants - 1) / 2)


@dataclass(frozen=True)
class Pair:
    """How variant `after` differs from variant `before`."""

    before: int
    after: int
    interval: Interval


def count_warmup(logs: Sequence[Sequence[float]]) -> int:
    """How many of the first rounds took longer than the others vary: 0 to 3."""
    levels = [fmean(values) for values in logs]
    warm = 0
    for at in range(min(_MOST_WARMUP, len(levels) - _LEAST_AFTER)):
        later = levels[at + 1 :]
        usual = median(later)
        spread = _MAD_TO_SIGMA * median(abs(level - usual) for level in later)
        if levels[at] - usual > max(_DEVIATIONS * spread, _LEAST_EXCESS):
            warm = at + 1
    return warm


def compare_pairs(logs: Sequence[Sequence[float]], aim: Aim) -> list[Pair]:
    """Every pair of variants over rounds that count; at least one."""
    count = len(logs[0])
    share = aim.share(count)
    return [
        Pair(one, other, bound_difference([values[other] - values[one] for values in logs], share))
        for one, other in itertools.combinations(range(count), 2)
    ]


def find_fastest(logs: Sequence[Sequence[float]]) -> int:
    """The variant with the least mean."""
    means = [fmean(column) for column in zip(*logs, strict=True)]
    return means.index(min(means))


def is_known(interval: Interval, aim: Aim) -> bool:
    """Whether this difference is known well enough."""
    return interval.reach <= choose_reach(interval, aim)


def choose_reach(interval: Interval, aim: Aim) -> float:
    """How far the interval of this difference may reach, as a logarithm."""
    if aim.until is not None:
        return aim.until
    return max(NEAR, THIRD * abs(interval.mean))


def is_decided(pairs: Sequence[Pair], aim: Aim) -> bool:
    """Whether the differences from the first variant, and from the fastest, are known."""
    leads: dict[int, float] = {}
    for pair in pairs:  # against the first, whose own place is 0
        if pair.before == 0:
            leads[pair.after] = pair.interval.mean
    fastest = min(leads, key=lambda variant: leads[variant])
    fastest = fastest if leads[fastest] < 0 else 0
    return all(
        is_known(pair.interval, aim) for pair in pairs if {0, fastest} & {pair.before, pair.after}
    )


def count_more_rounds(interval: Interval, reach: float, aim: Aim, variants: int) -> int | None:
    """After how many more rounds this difference is known to `reach`; None: too many to say."""
    if interval.reach <= reach:
        return 0
    if not math.isfinite(interval.spread) or reach <= 0:
        return None
    needed = count_rounds_needed(interval.spread, reach, aim.share(variants))
    return None if needed is None else max(needed - interval.rounds, 1)
