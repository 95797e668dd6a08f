"""tiny-kernels: the pauses between queued kernels count, because the kernels are short."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import call, kernel, launched, opened


def queued(folder: Path, length: float, pause: float = 1) -> Run:
    """Ten kernels from 100 on; all were launched before."""
    work = [
        launched(3 * i, kernel("k", 100 + (length + pause) * i, length), dur=1) for i in range(10)
    ]
    return opened(folder, work)


def test_1_us_between_kernels_of_5(tmp_path: Path) -> None:
    """Nine pauses in a window of 59 µs; without them 50 are left."""
    assert_speaks(
        queued(tmp_path, 5),
        "tiny-kernels",
        cost_ns=9_000,
        gain_ns=9_000,
        evidence=["9 gaps, 9.000 µs", "10 kernels"],
        fix="fuse",
        severity="warning",
    )


def test_pauses_between_the_nodes_of_a_graph(tmp_path: Path) -> None:
    nodes = [kernel("k", 20 + 6 * i, 5, 1) for i in range(10)]
    assert_speaks(
        opened(tmp_path, [call("cudaGraphLaunch", 0, 5, 1), *nodes]),
        "tiny-kernels",
        cost_ns=9_000,
        gain_ns=9_000,
        evidence=["9 gaps, 9.000 µs"],
        fix="fuse",
    )


def test_kernels_of_10_us_are_not_short(tmp_path: Path) -> None:
    assert_silent(queued(tmp_path / "a", 10), "tiny-kernels")
    assert_speaks(
        queued(tmp_path / "b", 9.9),
        "tiny-kernels",
        cost_ns=9_000,
        gain_ns=9_000,
        evidence=["9 gaps, 9.000 µs"],
        fix="fuse",
    )


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    """Nine pauses of 0.4 µs in 83.6 µs: 4.3 %."""
    assert_silent(queued(tmp_path, 8, pause=0.4), "tiny-kernels")
