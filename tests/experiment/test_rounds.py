"""Rounds: when they end, in which order they run, which warm up, and how rare alarms are."""

from __future__ import annotations

import math
import random
import runpy
from types import SimpleNamespace
from typing import Any

import pytest

from experiment.noise import MACHINES, make_outcome, simulate_trial
from sightline.experiment.judge import Aim, compare_pairs, count_more_rounds, count_warmup
from sightline.experiment.measure import Outcome
from sightline.experiment.rounds import (
    ALL_RUNS,
    DECIDED,
    INTERRUPTED,
    NO_TIME,
    Limits,
    run_rounds,
)
from support.places import ROOT


def test_a_large_difference_is_decided_early() -> None:
    dice = random.Random(1)
    trial = simulate_trial(MACHINES["normal"](dice), [1.0, 1.5], dice)
    assert trial.stopped == DECIDED
    assert len(trial.rounds) < 8


def test_until_goes_on_until_the_interval_is_as_narrow() -> None:
    dice = random.Random(2)
    aim = Aim(math.log1p(0.02))
    trial = simulate_trial(MACHINES["normal"](dice), [1.0, 1.5], dice, aim, 500)
    logs = [one.logs for one in trial.rounds]
    assert trial.stopped == DECIDED
    assert (
        compare_pairs(logs, aim)[0].interval.reach
        <= aim.until
        < (compare_pairs(logs[:-1], aim)[0].interval.reach)
    )
    interval = compare_pairs(logs[:20], aim)[0].interval
    foreseen = 20 + (count_more_rounds(interval, aim.until, aim, 2) or 0)
    assert foreseen == pytest.approx(len(logs), rel=0.5)


def test_it_ends_after_all_runs_and_in_time() -> None:
    dice = random.Random(3)
    assert simulate_trial(MACHINES["normal"](dice), [1, 1.001], dice, runs=5).stopped == ALL_RUNS
    now = [0.0]

    def measure(variant: int) -> tuple[Outcome, dict[str, Any]]:
        now[0] += 1
        return make_outcome(math.exp(dice.gauss(0, 0.2))), {}

    trial = run_rounds(2, measure, Aim(), Limits(100, 9.0), dice, clock=lambda: now[0])
    assert trial.stopped == NO_TIME
    assert len(trial.rounds) == 4  # two seconds each: a fifth would end after ten


def test_an_interrupt_leaves_whole_rounds() -> None:
    made = []

    def measure(variant: int) -> tuple[Outcome, dict[str, Any]]:
        made.append(variant)
        if len(made) == 6:
            raise KeyboardInterrupt
        return make_outcome(1.0 + variant), {}

    trial = run_rounds(2, measure, Aim(1e-9), Limits(30), random.Random(4))
    # Two equal rounds and a half; a third would decide, as nothing varies.
    assert (trial.stopped, len(trial.rounds)) == (INTERRUPTED, 2)


def test_each_round_has_each_variant_and_orders_differ_by_seed_alone() -> None:
    orders = []
    for seed in (5, 5, 6):
        dice = random.Random(seed)
        trial = simulate_trial(lambda: 0.0, [1.0, 1.0, 1.0], dice, Aim(-1.0), 12)
        assert all(sorted(one.order) == [0, 1, 2] for one in trial.rounds)
        orders.append([one.order for one in trial.rounds])
    assert orders[0] == orders[1] != orders[2]
    assert len({tuple(order) for order in orders[0]}) > 2


def test_cold_rounds_warm_up_and_usual_ones_do_not() -> None:
    """The levels of three rounds behind are needed, and no more than three are left out."""
    usual = [[0.0, 0.1], [0.001, 0.101], [-0.001, 0.1], [0.0, 0.1]]
    assert count_warmup(usual) == 0
    assert count_warmup([[0.3, 0.1], *usual]) == 1
    assert count_warmup([[0.9, 1.0], [0.5, 0.4], *usual]) == 2
    assert count_warmup([[0.9, 1.0]] * 5 + usual) <= 3
    assert count_warmup([[0.9, 1.0], *usual[:2]]) == 0


@pytest.fixture(scope="module")
def proof() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "scripts" / "try_proof.py")))


def _count_alarms(proof: SimpleNamespace, kind: str, trials: int, variants: int = 2) -> int:
    dice = random.Random(f"alarms {kind}")
    make = MACHINES[kind]
    aim = Aim(until=math.log(1.0001))
    return sum(
        proof.find_alarm(simulate_trial(make(dice), [1.0] * variants, dice, aim, 20), aim)
        is not None
        for _ in range(trials)
    )


@pytest.mark.parametrize("kind", MACHINES)
def test_equal_programs_raise_few_alarms(proof: SimpleNamespace, kind: str) -> None:
    """At most 5 % of 40 at any of 18 looks, and so many by luck (three sigma: 15 %)."""
    assert _count_alarms(proof, kind, 40) <= 6


@pytest.mark.campaign
@pytest.mark.parametrize("kind", MACHINES)
def test_many_equal_programs_raise_few_alarms(proof: SimpleNamespace, kind: str) -> None:
    """At most 5 % of 3,000, 21,000 in all kinds, and so many by luck (three sigma: 6.2 %)."""
    assert _count_alarms(proof, kind, 3000) <= 186


@pytest.mark.campaign
def test_four_equal_programs_raise_few_alarms(proof: SimpleNamespace) -> None:
    """All six pairs together: at most 5 % of 1,000, and luck (three sigma: 7.1 %)."""
    assert _count_alarms(proof, "normal", 1000, variants=4) <= 71
