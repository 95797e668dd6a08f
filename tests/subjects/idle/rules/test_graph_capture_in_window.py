"""graph-capture-in-window: graphs that are captured and built while the device waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import call, kernel, launch, launched, op, opened

RULE = "graph-capture-in-window"


def captured(folder: Path, begin: int, end: int, api: str = "cuda") -> Run:
    """A kernel at [10, 310), then a capture from `begin` to `end`, and a graph launched behind it.

    The graph's kernel starts at 990 and ends at 1,010: a window of 1,000 µs, idle from 310 on.
    """
    middle = (begin + end) // 2
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 300)),
            call(f"{api}StreamBeginCapture", begin, 5),
            op("aten::linear", begin + 10, 20),
            launch(begin + 15, 5, 7_777),  # puts nothing on the device
            call(f"{api}StreamEndCapture", middle, 5),
            call(f"{api}GraphInstantiate", middle + 5, end - middle - 5),
            launched(980, kernel("b", 990, 20), f"{api}GraphLaunch"),
        ],
    )


@pytest.mark.parametrize("api", ["cuda", "hip"])
def test_a_capture_of_500_of_1000_us(tmp_path: Path, api: str) -> None:
    """It takes [400, 900) of the gap of [310, 990), and what lies around it is the host's pace.

    Without it, the graph starts 500 µs earlier.
    """
    assert_speaks(
        captured(tmp_path, 400, 900, api),
        RULE,
        cost_ns=680_000,
        gain_ns=500_000,
        evidence=["68.0 %", "2 times captured or built, 500.0 µs in all"],
        fix="capture once",
        severity="critical",
    )


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    assert_silent(captured(tmp_path / "a", 400, 449), RULE)
    assert_speaks(
        captured(tmp_path / "b", 400, 450),
        RULE,
        cost_ns=50_000,
        gain_ns=50_000,
        evidence=["5.0 %"],
        fix="capture once",
    )


def test_a_capture_beside_a_busy_device(tmp_path: Path) -> None:
    assert_silent(captured(tmp_path, 20, 300), RULE)
