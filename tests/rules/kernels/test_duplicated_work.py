"""duplicated-work: equal operators in a row, of which no recording knows whether they differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.model.run import Run
from support.rules import assert_abstains, assert_silent
from support.traces import Event, kernel, launched, op, opened

RULE = "duplicated-work"
SQUARE, LARGE = [[4, 4]], [[8, 8]]


def pairs(
    folder: Path,
    *,
    between: bool = False,
    first: Any = SQUARE,
    kernels: tuple[str, str] = ("k", "k"),
) -> Run:
    """Ten pairs of aten::mm, each with one kernel of 180 of 200 µs."""
    events: list[Event | list[Event]] = []
    for i in range(20):
        at, second = 200 * i, i % 2
        if not second or between:
            events.append(op("aten::relu", at - 40, 10, **{"Input Dims": SQUARE}))
        events += [
            op("aten::mm", at, 20, **{"Input Dims": SQUARE if second else first}),
            launched(at + 5, kernel(kernels[second], at + 15, 180), dur=4),
        ]
    return opened(folder, events)


def test_ten_operators_repeat_the_one_before_them(tmp_path: Path) -> None:
    """Kernels of ten repetitions: 1,800 of 3,980 µs."""
    run = pairs(tmp_path)
    assert_abstains(run, RULE, "10 operators repeat")
    assert_abstains(run, RULE, "45.2 %")
    assert_abstains(run, RULE, "ExecutionTraceObserver")


@pytest.mark.parametrize(
    "change",
    [{"between": True}, {"first": LARGE}, {"kernels": ("k", "other")}],
    ids=["another operator between", "another shape", "another kernel"],
)
def test_what_is_no_repetition(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(pairs(tmp_path, **change), RULE)


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    shaped = {"Input Dims": SQUARE}
    run = opened(
        tmp_path,
        [
            op("aten::mm", 0, 9, **shaped),
            launched(2, kernel("k", 10, 951)),
            op("aten::mm", 10, 9, **shaped),
            launched(12, kernel("k", 961, 49)),
        ],
    )
    assert_silent(run, RULE)


def test_without_shapes_nothing_is_equal(tmp_path: Path) -> None:
    run = opened(tmp_path, [op("aten::mm", 0, 9), launched(2, kernel("k", 10, 951))])
    assert_silent(run, RULE)
