"""windows: which part of the timeline the answers are about."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import MissingDataError, RequestError
from support.ask import rows
from support.traces import kernel, opened, step


@pytest.mark.parametrize(
    ("window", "parts"),
    [
        (None, (200_000, 60_000, 140_000)),
        ("50us..150us", (100_000, 20_000, 80_000)),
        ("..50us", (50_000, 10_000, 40_000)),
        ("150us..", (50_000, 30_000, 20_000)),
        ("step:2", (190_000, 50_000, 140_000)),
        ("steady", (280_000, 50_000, 230_000)),
    ],
)
def test_windows(tmp_path: Path, window: str | None, parts: tuple[int, int, int]) -> None:
    """Kernels [10, 20), [110, 130), [180, 210); steps [0, 20), [110, 210), [210, 300).

    A step begins where the one before ended: the pause after the first is the second one's.
    """
    run = opened(
        tmp_path,
        [
            step(1, 0, 20),
            step(2, 110, 100),
            step(3, 210, 90),
            kernel("a", 10, 10),
            kernel("b", 110, 20),
            kernel("c", 180, 30),
        ],
    ).with_window(window)
    assert rows(run, "breakdown", "window_ns", "compute_ns", "idle_ns") == [parts]


@pytest.mark.parametrize("window", ["nonsense", "5us..1us", "step:9", "1..x"])
def test_window_that_does_not_exist(tmp_path: Path, window: str) -> None:
    run = opened(tmp_path, [step(1, 0, 20), kernel("a", 10, 10)]).with_window(window)
    with pytest.raises(RequestError):
        run.ask("breakdown")


def test_steady_window_needs_steps(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("a", 10, 10)]).with_window("steady")
    with pytest.raises(MissingDataError):
        run.ask("breakdown")
