"""slow-link: one of the links between ranks takes far longer for the same messages."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.run import Run
from support.pipelines import ONE_F_ONE_B, Pipeline, write_pipeline
from support.rules import answers, assert_silent
from worlds import kineto
from worlds.truth import judge

RULE = "slow-link"


def simulated(folder: Path, planted: dict[str, float]) -> tuple[Run, int]:
    """Four stages on four ranks, and what the slow link costs, ns."""
    case = judge("stages", planted, 3, "nvidia")
    paths = kineto.write_run(case.run, folder, "new", case.seed)
    return sightline.open(*map(str, paths)), case.gains.get("slow-stage-link", 0)


@pytest.mark.campaign  # `make test` has tests/diagnosis/test_twins.py and the pipelines below
def test_the_slow_one_of_three_links_is_named_first(tmp_path: Path) -> None:
    run, cost = simulated(tmp_path, {"slow-stage-link": 1.5})
    first = next(f for f in sightline.findings(run) if f.gain_ns)
    assert first.rule == RULE
    assert first.where["link"] == [1, 2]
    assert first.gain_ns == pytest.approx(cost, rel=0.12)
    assert first.gain_ns <= 1.05 * cost


@pytest.mark.campaign
def test_equal_links_are_not_told_apart(tmp_path: Path) -> None:
    run, _ = simulated(tmp_path, {})
    assert_silent(run, RULE)


def test_a_link_is_slow_beside_others_of_the_same_messages(tmp_path: Path) -> None:
    """By construction: 600 µs and 60 µs; the host's pace hides the gain here, not the link."""
    of = Pipeline(4, 1, 8, ONE_F_ONE_B, transfer_ns=60_000, slow_link=1)
    run = sightline.open(*map(str, write_pipeline(of, tmp_path)))
    (found,) = answers(run, RULE)
    assert found.where["link"] == [1, 2]
    assert "600.0 µs" in found.summary
    assert "60.00 µs elsewhere" in found.summary


def test_two_links_show_no_third_to_compare_with(tmp_path: Path) -> None:
    of = Pipeline(3, 1, 8, ONE_F_ONE_B, transfer_ns=60_000, slow_link=1)
    assert_silent(sightline.open(*map(str, write_pipeline(of, tmp_path))), RULE)
