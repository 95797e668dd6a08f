"""What is said beside the figures of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from sightline.answer.answer import Answer, note_ladder


def find(rule: str, gain_pct: float) -> dict[str, Any]:
    gain = {"gain_ns": round(gain_pct * 1_000), "gain_pct": gain_pct}
    rest = {"gain_bytes": None, "gain_j": None, "severity": "warning", "abstained": False}
    return {"rule": rule, **gain, **rest}


@pytest.mark.parametrize(
    ("findings", "is_said"),
    [
        ([("sync-in-step", 60.0), ("launch-bound", 40.0)], False),
        ([("sync-in-step", 60.0), ("launch-bound", 40.2)], True),
        ([("sync-in-step", 60.0), ("ncu-stall", 60.0)], False),  # shares of different wholes
    ],
)
def test_gains_that_are_more_than_all_are_not_to_be_added(
    findings: list[tuple[str, float]], *, is_said: bool
) -> None:
    answer = Answer(findings=[find(*one) for one in findings])
    assert any("overlap" in note for note in answer.notes) == is_said


def test_a_rule_that_found_two_things_is_named_once() -> None:
    found = [find("host-late", 40.0), find("host-late", 30.0), find("sync-in-step", 25.0)]
    idle = [{"idle_ns": 50_000}]
    (said,) = Answer(findings=found, breakdown=idle).notes
    assert said.startswith(
        "The gains of host-late and sync-in-step overlap: the GPU is idle for 50.00 µs"
    )
    (said,) = Answer(findings=found[:2], breakdown=idle).notes
    assert said.startswith("The gains of all host-late findings overlap")


def test_what_is_free_only_together_is_a_list() -> None:
    frees = [("host", 64.9), ("copies", 0.0), ("communication", 0.0), ("all of these", 77.0)]
    said = note_ladder([{"free": free, "gain_pct": pct} for free, pct in frees])
    assert said is not None
    assert said.endswith("by: host 64.9 %, host, copies and communication together 77.0 %.")
