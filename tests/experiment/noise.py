"""Programs that take a known time, with the noise of machines: what `sightline try` is proven on.

A machine is a function from how many runs it made to the factor of the next one's time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from sightline.experiment.judge import Aim
from sightline.experiment.measure import Outcome
from sightline.experiment.rounds import Limits, Measure, Trial, run_rounds

Machine = Callable[[], float]


def _make_normal(dice: random.Random) -> Machine:
    return lambda: dice.gauss(0, 0.03)


def _make_skewed(dice: random.Random) -> Machine:
    """Runs are never faster than the program, and sometimes much slower."""
    return lambda: dice.expovariate(1 / 0.03)


def _make_spikes(dice: random.Random) -> Machine:
    """One run in ten is half as slow again."""
    return lambda: dice.gauss(0, 0.005) + (0.4 if dice.random() < 0.1 else 0.0)


def _make_two_states(dice: random.Random) -> Machine:
    """Clocks boost, or do not: the worst case, as few runs may all have met one state each."""
    return lambda: dice.choice((0.0, 0.1)) + dice.gauss(0, 0.003)


def _make_drift(dice: random.Random) -> Machine:
    """Each run is 1 % slower than the one before, as the machine heats up."""
    made = [0]

    def run() -> float:
        made[0] += 1
        return 0.01 * made[0] + dice.gauss(0, 0.01)

    return run


def _make_following(dice: random.Random, follows: float = 0.9) -> Machine:
    """Runs follow one another, as a neighbor's load comes and goes."""
    level = [0.0]

    def run() -> float:
        level[0] = follows * level[0] + dice.gauss(0, 0.03)
        return level[0]

    return run


def _make_cold(dice: random.Random) -> Machine:
    """The first runs find cold caches, disks and clocks."""
    made = [0]

    def run() -> float:
        made[0] += 1
        return 1.5 * 0.3 ** (made[0] - 1) + dice.gauss(0, 0.02)

    return run


MACHINES: dict[str, Callable[[random.Random], Machine]] = {
    "normal": _make_normal,
    "skewed": _make_skewed,
    "spikes": _make_spikes,
    "two states": _make_two_states,
    "drift": _make_drift,
    "following": _make_following,
    "cold": _make_cold,
}


def make_outcome(value: float, code: int = 0) -> Outcome:
    """A run of so many seconds."""
    return Outcome(value * 1e9, round(value * 1e9), round(value * 1e9), 1 << 20, code, "")


def simulate_trial(
    machine: Machine,
    seconds: Sequence[float],
    dice: random.Random,
    aim: Aim | None = None,
    runs: int = 30,
) -> Trial:
    """A trial of programs that take so long, on a machine that has a clock of its own."""

    def measure(variant: int) -> tuple[Outcome, dict[str, Any]]:
        return make_outcome(seconds[variant] * math.exp(machine())), {}

    run: Measure = measure
    return run_rounds(len(seconds), run, aim or Aim(), Limits(runs), dice)
