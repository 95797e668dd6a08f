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


@pytest.mark.parametrize("name", FAMILIES)
def test_planted_problem_first_and_its_gain_true(name, tmp_path):
    family = FAMILIES[name]
    program, twin = (family.build(SIZE, SEED, planted) for planted in (True, False))
    first = loud(family, program, tmp_path / "planted")[0]
    assert first.rule == name
    truth = window_ns(program) - window_ns(twin)
    assert first.gain_ns == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize("name", sample([*FAMILIES], 3))
def test_healthy_twin_is_quiet(name, tmp_path):
    family = FAMILIES[name]
    assert loud(family, family.build(SIZE, SEED, False), tmp_path) == []
