"""generator-setup: setup_kernel beside the kernel that draws."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import opened, queued

RULE = "generator-setup"
SETUP, DRAW = "setup_kernel(curandStateXORWOW *)", "draw(float *, curandStateXORWOW *)"


def run_of(folder: Path, *kernels: tuple[str, int]) -> Run:
    return opened(folder, queued(*kernels))


def test_700_of_1000_us(tmp_path: Path) -> None:
    """What an empty kernel takes, 3 µs, remains."""
    assert_speaks(
        run_of(tmp_path, (SETUP, 700), (DRAW, 300)),
        RULE,
        cost_ns=697_000,
        gain_ns=697_000,
        evidence=["69.7 % of the window", "1 × setup_kernel"],
        fix="Philox",
        severity="critical",
    )


def test_a_small_part(tmp_path: Path) -> None:
    assert_silent(run_of(tmp_path, (SETUP, 50), (DRAW, 950)), RULE)


def test_a_kernel_that_draws(tmp_path: Path) -> None:
    assert_silent(run_of(tmp_path, (DRAW, 1000)), RULE)
