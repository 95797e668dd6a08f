"""The verdict: one word, and what would decide it where it is open."""

from __future__ import annotations

import pytest

from sightline.compare.comparability import Check
from sightline.compare.statistics import Floor, compare_runs, measure_spread
from sightline.compare.verdict import Verdict, reach_verdict

Runs = list[list[float]]
FLAT = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 101.0]


def _judge(before: Runs, after: Runs, floor: Floor | None = None, *checks: Check) -> Verdict:
    one, other = ([measure_spread(run) for run in side] for side in (before, after))
    return reach_verdict(checks, compare_runs(one, other, floor), (one, other), floor)


def test_what_blocks_comes_first() -> None:
    verdict = _judge([[1.0]] * 3, [[2.0]] * 3, None, Check("GPU", "blocks", "another GPU"))
    assert (verdict.word, verdict.reasons) == ("not comparable", ("another GPU",))


@pytest.mark.parametrize(
    ("after", "word"), [(110.0, "slower"), (90.0, "faster"), (100.2, "no change")]
)
def test_several_runs(after: float, word: str) -> None:
    verdict = _judge([[99.0], [100.0], [101.0]], [[after - 1], [after], [after + 1]])
    assert verdict.word == word
    assert verdict.visible_pct == pytest.approx(3.2, abs=0.3)  # t-quantiles of 4: 2.78 and 0.94


def test_one_run_a_side_is_no_verdict_on_programs() -> None:
    """5 % between two recordings that vary by 0.7 %: three runs decide it below 1.6 % spread."""
    verdict = _judge([FLAT], [[x * 1.05 for x in FLAT]])
    assert (verdict.word, verdict.runs_needed) == ("inconclusive", 3)
    assert "these two recordings differ" in verdict.reasons[0]
    assert "less than 1.6 %" in verdict.reasons[0]


def test_one_run_a_side_without_a_difference() -> None:
    verdict = _judge([FLAT], [list(reversed(FLAT))])
    assert verdict.word == "no change"
    assert "also varies from run to run" in verdict.reasons[0]


def test_one_run_a_side_with_a_floor() -> None:
    floor = Floor(0.01**2, 5)
    assert _judge([FLAT], [[x * 1.10 for x in FLAT]], floor).word == "slower"
    assert _judge([FLAT], [[x * 1.02 for x in FLAT]], floor).word == "no change"


@pytest.mark.parametrize("steps", [1, 5])
def test_few_steps(steps: int) -> None:
    verdict = _judge([FLAT[:steps]], [[x + 1 for x in FLAT[:steps]]])
    assert (verdict.word, verdict.runs_needed) == ("inconclusive", 3)


def test_equal_to_the_nanosecond() -> None:
    assert _judge([FLAT[:1]], [FLAT[:1]]).word == "no change"
