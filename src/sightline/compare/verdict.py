"""The verdict: faster, slower, no change that this data can show, not comparable, or open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sightline.compare.comparability import Check
from sightline.compare.statistics import (
    Difference,
    Floor,
    Spread,
    count_runs_needed,
    estimate_floor,
    smallest_visible,
)
from sightline.core.units import format_pct, format_several

FASTER, SLOWER, NO_CHANGE, OPEN, NOT_COMPARABLE = (
    "faster",
    "slower",
    "no change",
    "inconclusive",
    "not comparable",
)
# So many runs a side are asked for where nobody knows how runs differ: the fewest of which a
# spread can be told from luck (Kalibera and Jones 2013 advise three at the least).
FEW_RUNS = 3


@dataclass(frozen=True)
class Verdict:
    """One word, the sentences that explain it, and what would decide it where it is open.

    `visible_pct` is the smallest change that would be seen four times out of five, where that is
    known; `runs_needed` how many runs a side would see the change that was measured.
    """

    word: str
    reasons: tuple[str, ...]
    visible_pct: float | None = None
    runs_needed: int | None = None


def reach_verdict(
    checks: Sequence[Check],
    difference: Difference,
    runs: tuple[Sequence[Spread], Sequence[Spread]],
    floor: Floor | None,
) -> Verdict:
    """What the checks and the test of the step time come to; `runs` are both sides' steps.

    `floor` is what the test used: one that was measured, or a guess.
    """
    blocked = tuple(check.text for check in checks if check.effect == "blocks")
    if blocked:
        return Verdict(NOT_COMPARABLE, blocked)
    if difference.ratio is None or difference.p_value is None:
        return _explain_untested(difference, runs)
    if difference.level == "steps":
        return _explain_one_run(difference)
    if difference.level == "guess":
        assert floor is not None, "a guess is a floor"
        return _explain_guess(difference, floor)
    own = estimate_floor([[math.log(run.mean) for run in side] for side in runs])
    known = own if floor is None else floor if own is None else _larger(own, floor)
    assert known is not None, "a test of runs needs to know how they differ"
    visible = 100 * smallest_visible(len(runs[0]), len(runs[1]), known)
    if difference.is_significant:
        return Verdict(SLOWER if difference.ratio > 1 else FASTER, (), visible)
    needed = count_runs_needed(difference.ratio - 1, known)
    return Verdict(
        NO_CHANGE,
        (f"a change of {format_pct(visible)} would have been seen four times out of five",),
        visible,
        needed,
    )


def _larger(own: Floor, floor: Floor) -> Floor:
    return own if own.variance >= floor.variance else floor


def _explain_untested(
    difference: Difference, runs: tuple[Sequence[Spread], Sequence[Spread]]
) -> Verdict:
    if difference.ratio is None:
        return Verdict(OPEN, ("one side has no time to compare",), runs_needed=FEW_RUNS)
    if difference.ratio == 1:
        return Verdict(NO_CHANGE, ("both take the same time, to the nanosecond",))
    fewest = min(run.count for side in runs for run in side)
    return Verdict(
        OPEN,
        (
            f"one run of each version with {format_several(fewest, 'step')} does not show how "
            f"much a step varies: record {FEW_RUNS} runs of each, or measure the noise once "
            "(--calibrate)",
        ),
        runs_needed=FEW_RUNS,
    )


def _explain_one_run(difference: Difference) -> Verdict:
    """One run a side: at best the two recordings differ."""
    assert difference.ratio is not None
    if not difference.is_significant:
        assert difference.low is not None
        assert difference.high is not None
        reach = (math.log(difference.high) - math.log(difference.low)) / 2
        return Verdict(
            NO_CHANGE,
            (
                "the two recordings differ by no more than their steps vary; the same program also "
                "varies from run to run",
            ),
            100 * math.expm1(reach),
        )
    spread = _largest_spread(difference.ratio - 1)
    return Verdict(
        OPEN,
        (
            "these two recordings differ; whether the programs do, one run of each cannot say, as "
            f"the same program also varies from run to run. Record {FEW_RUNS} runs of each "
            f"version, which decide it if they vary by less than {format_pct(100 * spread)}, or "
            "measure the noise once (--calibrate, then --floor)",
        ),
        runs_needed=FEW_RUNS,
    )


def _explain_guess(difference: Difference, floor: Floor) -> Verdict:
    """One run a side, beside what runs of other programs vary by."""
    assert difference.ratio is not None
    if difference.ratio == 1:
        return Verdict(NO_CHANGE, ("both take the same time, to the nanosecond",))
    visible = 100 * smallest_visible(1, 1, floor)
    reason = (
        f"one run of each version cannot show changes under about {format_pct(visible)}, as runs "
        f"of such programs vary; {FEW_RUNS} runs of each, or the noise measured once "
        "(--calibrate, then --floor), show smaller ones"
    )
    if difference.is_significant:
        word = SLOWER if difference.ratio > 1 else FASTER
        # A change that is smaller than what is seen four times out of five, and was seen here.
        if abs(100 * (difference.ratio - 1)) < visible:
            reason = (
                f"runs of such programs rarely differ by so much by themselves; {FEW_RUNS} runs "
                "of each version show more precisely how much of it is the change"
            )
        return Verdict(word, (reason,), visible, FEW_RUNS)
    return Verdict(OPEN, (reason,), visible, runs_needed=FEW_RUNS)


def _largest_spread(change: float) -> float:
    """How much runs may vary (standard deviation) for FEW_RUNS a side to see the change."""
    unit = Floor(1.0, 2 * FEW_RUNS - 2)
    per_spread = math.log1p(smallest_visible(FEW_RUNS, FEW_RUNS, unit))
    return abs(math.log1p(change)) / per_spread
