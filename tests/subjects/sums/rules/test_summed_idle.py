"""How long the GPU worked at most, where the tool says how long the program took."""

from __future__ import annotations

from pathlib import Path

import sightline
from formats.test_unitrace_summary import SUMMARY
from sightline.core.model.run import Run
from support.printed import MS, open_sums
from support.rules import assert_silent, assert_speaks


def open_summary(folder: Path, program_ns: int) -> Run:
    path = folder / "unitrace.txt"
    path.write_text(SUMMARY.replace("9000000", str(program_ns)))
    return sightline.open(str(path))


def test_less_than_half(tmp_path: Path) -> None:
    assert_speaks(
        open_summary(tmp_path, 5_000_000),
        "summed-idle",
        cost_ns=5_000_000 - 2_100_000,  # kernels, copies and fills; the barrier only waits
        gain_ns=None,
        evidence=["42.0 %", "1 kernel compiled while the program ran", "zeModuleCreate: 1.400 ms"],
        fix="--chrome-kernel-logging",
        severity="info",
        states_limit=True,
    )


def test_more_than_half(tmp_path: Path) -> None:
    assert_silent(open_summary(tmp_path, 4_000_000), "summed-idle")


def test_work_that_overlaps_may_take_longer_than_the_program(tmp_path: Path) -> None:
    assert_silent(open_summary(tmp_path, 2_000_000), "summed-idle")


def test_no_tool_said_how_long_the_program_took(tmp_path: Path) -> None:
    run = open_sums(tmp_path, kernels=[("k()", 3, 50 * MS, MS)])
    assert_silent(run, "summed-idle")
