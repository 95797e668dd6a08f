"""Pairs whose change is known: a sample of what `make compare-proof` prints as a table."""

from __future__ import annotations

import random
import runpy
from operator import mul
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def proof() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "scripts" / "compare_proof.py")))


def _check(proof: SimpleNamespace, count: int, tmp_path: Path) -> None:
    """Each planted change is right and has its culprit first; one in ten may be a false alarm."""
    wrong = []
    for number, pair in enumerate(proof.list_pairs(count)):
        found = proof.judge_pair(pair, tmp_path / str(number), str(number))
        if not found["right"] or not found.get("culprit", True):
            wrong.append((number, pair.kind, found))
    assert len(wrong) <= count // 10, wrong


def test_one_pair_of_each_kind(proof: SimpleNamespace, tmp_path: Path) -> None:
    _check(proof, 9, tmp_path)


@pytest.mark.campaign
def test_many_pairs(proof: SimpleNamespace, tmp_path: Path) -> None:
    _check(proof, 300, tmp_path)


def test_flat_steps_of_all_kinds(proof: SimpleNamespace) -> None:
    """At most 5 % of 200 trials of each kind, and so many by luck (three sigma: 9.6 %)."""
    for other in set(proof.TESTS) - {"sightline"}:
        del proof.TESTS[other]
    for label, shares in proof.count_alarms(200):
        assert shares["sightline"] <= 9.6, label


def test_simulated_steps_follow_as_they_should(proof: SimpleNamespace) -> None:
    steps = proof.simulate_steps(random.Random(1), 5000, 0.6, 0.0)
    mean = sum(steps) / len(steps)
    rest = [x - mean for x in steps]
    together = sum(map(mul, rest[1:], rest))
    assert together / sum(a * a for a in rest) == pytest.approx(0.6, abs=0.05)
