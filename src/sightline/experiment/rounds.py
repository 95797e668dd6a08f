"""Rounds: each variant once a round, in random order, until enough is known.

What the machine does otherwise, and how it drifts, meets all variants of a round alike; the order
is random, so that being first or second favors none.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightline.compare.sequential import MIN_ROUNDS
from sightline.experiment.judge import Aim, compare_pairs, count_warmup, is_decided
from sightline.experiment.measure import Outcome

DECIDED, ALL_RUNS, NO_TIME, INTERRUPTED = "decided", "all runs made", "time is up", "interrupted"


@dataclass(frozen=True)
class Limits:
    """Where it ends at the latest: rounds, and seconds in all."""

    rounds: int
    seconds: float | None = None


@dataclass
class Round:
    """One run of each variant: outcomes by variant, their order, and what was around each."""

    outcomes: list[Outcome]
    order: list[int]
    around: list[dict[str, Any]] = field(default_factory=list)

    @property
    def logs(self) -> list[float]:
        """The logarithm of each variant's value."""
        return [math.log(outcome.value or math.nan) for outcome in self.outcomes]


@dataclass
class Trial:
    """All rounds that were made, and why no more were."""

    rounds: list[Round]
    stopped: str


Measure = Callable[[int], tuple[Outcome, dict[str, Any]]]


def run_rounds(
    count: int,
    measure: Measure,
    aim: Aim,
    limits: Limits,
    dice: random.Random,
    tell: Callable[[Sequence[Round]], None] = lambda rounds: None,
    clock: Callable[[], float] = time.monotonic,
) -> Trial:
    """Rounds of `count` variants; `measure` runs one, and `tell` hears of each round.

    It may stop at every look, as `judge` bounds differences at all looks at once. Whoever
    interrupts gets what is known: whole rounds.
    """
    rounds: list[Round] = []
    began = clock()
    try:
        while len(rounds) < limits.rounds:
            rounds.append(_run_round(count, measure, dice))
            tell(rounds)
            logs = [one.logs for one in rounds]
            # The fewest rounds that can decide, behind those that only warm up.
            if len(rounds) >= MIN_ROUNDS and is_decided(
                compare_pairs(logs[count_warmup(logs) :], aim), aim
            ):
                return Trial(rounds, DECIDED)
            if limits.seconds is not None:
                spent = clock() - began
                if spent + spent / len(rounds) > limits.seconds:  # the next would not end in time
                    return Trial(rounds, NO_TIME)
    except KeyboardInterrupt:
        return Trial(rounds, INTERRUPTED)
    return Trial(rounds, ALL_RUNS)


def _run_round(count: int, measure: Measure, dice: random.Random) -> Round:
    order = list(range(count))
    dice.shuffle(order)
    found = {variant: measure(variant) for variant in order}
    return Round(
        [found[variant][0] for variant in range(count)],
        order,
        [found[variant][1] for variant in range(count)],
    )
