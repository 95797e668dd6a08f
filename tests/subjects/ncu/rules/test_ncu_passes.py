"""ncu-passes: a sort that passes over all of its data in each of many launches."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from support.profiled import DRAM, L2, MEMORY, SM, TIME, opened, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks
from synth_ncu import Kernel, report

RULE = "ncu-passes"
METRICS = {TIME: 40_000.0, SM: 35.0, MEMORY: 60.0, DRAM: 60.0, L2: 50.0,
           "launch__waves_per_multiprocessor": 30.0}  # fmt: skip


def sort(
    launches: int, name: str = "bitonicSortGlobal(int *, int, int)", **changed: float
) -> bytes:
    kernels = [
        Kernel(name=name, grid=(65_536, 1, 1), metrics=METRICS | changed) for _ in range(launches)
    ]
    return report(kernels)


def test_ten_passes(tmp_path: Path) -> None:
    run = opened(tmp_path, sort(10))
    assert_speaks(
        run,
        RULE,
        cost_ns=120_000,
        gain_ns=120_000,  # half of the 60 % of 400 µs
        evidence=["10 launches over all of the data, each of which needs memory for 60.0 %"],
        fix="several steps in one launch",
        severity="warning",
        confidence="medium",
    )
    first = next(f for f in sightline.findings(run) if not f.abstained)
    assert first.rule == RULE
    assert "DeviceRadixSort" in first.fix


def test_passes_just_under_the_vendors_line_are_passes_too(tmp_path: Path) -> None:
    """At 50 % of memory's rate Nsight Compute speaks of latency."""
    run = opened(tmp_path, sort(10, **{MEMORY: 50.0, DRAM: 50.0}))
    assert next(f.rule for f in sightline.findings(run) if not f.abstained) == RULE


@pytest.mark.parametrize(
    "data",
    [
        sort(4),
        sort(10, name="saxpy(float *)"),
        sort(10, **{MEMORY: 20.0, DRAM: 20.0, L2: 20.0}),
        sort(10, name="void cub::DeviceRadixSortOnesweepKernel<int>(int *)"),
    ],
    ids=["few launches", "no steps", "not bound by memory", "a library's"],
)
def test_silence(tmp_path: Path, data: bytes) -> None:
    assert_silent(opened(tmp_path, data), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section SpeedOfLight")
