"""What is said beside the figures of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from sightline.answer.answer import Answer


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
