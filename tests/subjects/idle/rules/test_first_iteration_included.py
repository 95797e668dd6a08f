"""first-iteration-included: most of the late launches are those of the first marked step."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import kernel, launched, opened, step


def with_steps(folder: Path, *steps: tuple[int, int]) -> Run:
    """Idle in [110, 910) for a late call; then three kernels that were launched ahead."""
    return opened(
        folder,
        [
            *(step(number, start, end - start) for number, (start, end) in enumerate(steps)),
            launched(0, kernel("a", 10, 100)),
            launched(900, kernel("b", 910, 100)),
            launched(920, kernel("c", 1010, 400)),
            launched(940, kernel("d", 1410, 400)),
        ],
    )


def test_a_pause_in_the_first_of_three_steps(tmp_path: Path) -> None:
    """Of 895 µs between the first two calls the usual 15 are left. Kernel b then waits only for
    kernel a, 1 µs, and starts at 111 instead of 910.
    """
    assert_speaks(
        with_steps(tmp_path, (0, 1000), (1000, 1400), (1400, 1810)),
        "first-iteration-included",
        cost_ns=800_000,
        gain_ns=799_000,
        evidence=["1 gap of 800.0 µs"],
        fix="--window steady",
        severity="critical",
    )


def test_a_pause_in_a_later_step(tmp_path: Path) -> None:
    run = with_steps(tmp_path, (-50, 0), (0, 1400), (1400, 1810))
    assert_silent(run, "first-iteration-included")


def test_two_steps_have_no_usual_one(tmp_path: Path) -> None:
    assert_silent(with_steps(tmp_path, (0, 1000), (1000, 1810)), "first-iteration-included")


def test_without_steps_there_is_no_first(tmp_path: Path) -> None:
    assert_silent(with_steps(tmp_path), "first-iteration-included")
