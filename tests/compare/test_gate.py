"""The gate: conditions are read, and fail only where a change is real."""

from __future__ import annotations

from typing import Any

import pytest

from sightline.compare.gate import judge_gate, parse_gate
from sightline.errors import RequestError


def _data(word: str = "slower", after: int = 110) -> dict[str, Any]:
    pair = {
        "part": "compute", "kind": "changed", "level": "runs", "false_discovery_rate": 0.01,
        "before_names": ["gemm"], "after_names": ["gemm"], "before_ns": 50, "after_ns": 60,
    }  # fmt: skip
    return {
        "verdict": {"word": word, "reasons": ["another GPU"]},
        "step": {"before_ns": 100, "after_ns": after},
        "pairs": [pair, {**pair, "before_names": ["noise"], "false_discovery_rate": 0.3}],
        "metrics": [{"metric": "launches", "before": 10, "after": 12}],
    }


@pytest.mark.parametrize(
    ("condition", "word", "fails"),
    [
        ("step_ns > 3%", "slower", True),
        ("step_ns > 10%", "slower", False),  # it grew by 10 %, and not by more
        ("step_ns > 9ns", "slower", True),
        ("step_ns>3 %", "no change", False),  # as large, but no more than runs differ
        ("step_ns > 3%", "not comparable", True),  # fails closed
        ("step_ns > 3%", "inconclusive", False),
        ("inconclusive", "inconclusive", True),
        ("slower", "slower", True),
        ("slower", "faster", False),
        ("kernel:ge.m > 15%", "no change", True),
        ("kernel:gemm > 25%", "slower", False),
        ("kernel:^noise > 1%", "slower", False),
        ("launches > 1", "no change", True),
        ("launches > 20%", "no change", False),
        ("peak_memory > 0%", "no change", True),  # nobody recorded it: fails closed
    ],
)
def test_gate(condition: str, word: str, fails: bool) -> None:
    data = _data(word)
    # `noise` is the second pair's name before; its name after is gemm as well.
    data["pairs"][1]["after_names"] = ["noise"]
    assert (judge_gate(parse_gate(condition), data) is not None) is fails


@pytest.mark.parametrize("text", ["step", "step_ns > x", "kernel:( > 3%", "tokens > 3%", ""])
def test_no_condition(text: str) -> None:
    with pytest.raises(RequestError):
        parse_gate(text)
