"""Planted problems: each is found first, its gain is the true one, its healthy twin is quiet.

A small sample of what benchmarks/diagnosis.py measures over more sizes and seeds.
"""

from __future__ import annotations

import pytest

import sightline
from sightline import findings
from support.as_nsys import recorded
from support.campaigns import sample
from synth.families import FAMILIES, window_ns

SIZE, SEED = 1, 7


def loud(family, program, folder):
    found = findings(sightline.open(str(recorded(family, program, folder))))
    return [f for f in found if not f.abstained and f.severity != "info"]


ONCE = "first-iteration-included"  # start-up, and no problem of the steps


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != ONCE])
def test_planted_problem_first_and_its_gain_true(name, tmp_path):
    family = FAMILIES[name]
    program, twin = (family.build(SIZE, SEED, planted) for planted in (True, False))
    first = loud(family, program, tmp_path / "planted")[0]
    assert first.rule == name
    truth = window_ns(program) - window_ns(twin)
    assert first.gain_ns == pytest.approx(truth, rel=0.05)


def test_a_long_first_step_is_start_up(tmp_path):
    """Nothing is gained in a step; start-up is the pause and the step that holds it."""
    program, twin = (FAMILIES[ONCE].build(SIZE, SEED, planted) for planted in (True, False))
    run = sightline.open(str(recorded(FAMILIES[ONCE], program, tmp_path)))
    found = findings(run)
    assert [f for f in found if not f.abstained and f.severity != "info"] == []
    (remark,) = [f for f in found if f.rule == "start-up"]
    step = run.ask("steps").get_column("duration_ns").median()
    pause = window_ns(program) - window_ns(twin)
    assert remark.is_remark
    assert remark.cost_ns == pytest.approx(pause + step, abs=step)


@pytest.mark.parametrize("name", sample([*FAMILIES], 3))
def test_healthy_twin_is_quiet(name, tmp_path):
    family = FAMILIES[name]
    assert loud(family, family.build(SIZE, SEED, False), tmp_path) == []
