"""Pairs whose change is known: a sample of what `make compare-proof` prints as a table."""

from __future__ import annotations

import random
import runpy
from operator import mul
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.places import ROOT


@pytest.fixture(scope="module")
def proof() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "scripts" / "compare_proof.py")))


@pytest.mark.campaign
def test_one_pair_of_each_kind(proof: SimpleNamespace, tmp_path: Path) -> None:
    """Each planted change is right, and what was planted is named first."""
    last = reversed([*enumerate(proof.list_pairs(9))])
    pairs = {pair.kind: (number, pair) for number, pair in last}
    for kind, (number, pair) in pairs.items():
        found = proof.judge_pair(pair, tmp_path / kind, str(number))
        assert found["right"], (kind, found)
        assert found.get("culprit", True), (kind, found)


@pytest.mark.campaign
def test_many_pairs(proof: SimpleNamespace) -> None:
    """Of planted changes 98 % are right and 95 % named first; of flat pairs 5 % are alarms.

    And so many by luck: three sigma of 76 pairs are 7.5 %.
    """
    answers = proof.prove(300)
    flat = answers.pop("nothing")
    assert sum(not a["right"] for a in flat) / len(flat) < 0.125
    changed = [a for rows in answers.values() for a in rows]
    assert sum(a["right"] for a in changed) / len(changed) >= 0.98
    named = [a["culprit"] for a in changed if "culprit" in a]
    assert sum(named) / len(named) >= 0.95


@pytest.mark.campaign
def test_flat_steps_of_all_kinds(proof: SimpleNamespace) -> None:
    """At most 5 % of 400 trials of each kind, and so many by luck (three sigma: 8.3 %)."""
    for other in set(proof.TESTS) - {"sightline"}:
        del proof.TESTS[other]
    for label, shares in proof.count_alarms(20):
        assert shares["sightline"] <= 8.3, label


def test_simulated_steps_follow_as_they_should(proof: SimpleNamespace) -> None:
    steps = proof.simulate_steps(random.Random(1), 5000, 0.6, 0.0)
    mean = sum(steps) / len(steps)
    rest = [x - mean for x in steps]
    together = sum(map(mul, rest[1:], rest))
    assert together / sum(a * a for a in rest) == pytest.approx(0.6, abs=0.05)
