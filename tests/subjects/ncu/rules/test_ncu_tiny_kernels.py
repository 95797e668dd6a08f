"""ncu-tiny-kernels: launches of 2 to 3 µs are not worth tuning singly."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.core.model.run import Run
from support.profiled import MEMORY, SM, TIME, opened
from support.rules import answers, assert_silent
from synth_ncu import Kernel, report

RULE = "ncu-tiny-kernels"
LOW = {SM: 4.0, MEMORY: 4.0, "launch__waves_per_multiprocessor": 0.1}


def run_of(folder: Path, *times: float) -> Run:
    kernels = [
        Kernel(grid=(1, 1, 1), block=(256, 1, 1), metrics={**LOW, TIME: time}) for time in times
    ]
    return opened(folder, report(kernels))


def test_three_launches(tmp_path: Path) -> None:
    """Nothing else leads, nor claims time that an empty kernel takes, too: 2 of 2.4 µs."""
    run = run_of(tmp_path, 2000.0, 2400.0, 3000.0)
    (found,) = answers(run, RULE)
    assert "100.0 % of the profiled time is in launches of 2.000 µs to 3.000 µs" in found.summary
    assert "1 block of 256 threads" in found.evidence[-1]
    said = [f for f in sightline.findings(run) if not f.abstained]
    assert said[0].rule == RULE
    assert {f.severity for f in said} == {"info"}
    assert max(f.gain_ns or 0 for f in said) <= 400 + 1000


def test_under_half_of_the_time(tmp_path: Path) -> None:
    assert_silent(run_of(tmp_path, 3000.0, 6100.0), RULE)


def test_longer_launches(tmp_path: Path) -> None:
    assert_silent(run_of(tmp_path, 4000.0, 50_000.0), RULE)


def test_many_short_kernels_that_keep_nothing_busy(tmp_path: Path) -> None:
    """A small network's launches of 3 to 8 µs: none is worth tuning, all of them may be fused."""
    times = (3_000.0, 5_000.0, 7_600.0, 4_100.0, 4_200.0)
    run = run_of(tmp_path, *times)
    (found,) = answers(run, RULE)
    assert found.title == "Kernels too short to matter one by one"
    assert "100.0 % of the profiled time is in launches of 3.000 µs to 7.600 µs" in found.summary
    assert_silent(run_of(tmp_path / "few", *times[:3]), RULE)
    assert_silent(run_of(tmp_path / "long", *times, 12_000.0), RULE)
    busy = [Kernel(metrics={**LOW, SM: 30.0, TIME: time}) for time in times]
    assert_silent(opened(tmp_path / "busy", report(busy)), RULE)


def test_many_short_kernels_of_a_block_each(tmp_path: Path) -> None:
    """One of them keeps its SM busy: on a GPU of 80 that is no program's time, either."""
    busy = [
        Kernel(
            name=name, grid=(1, 1, 1), block=(1024, 1, 1), metrics={**LOW, MEMORY: 45.0, TIME: time}
        )
        for name, time in zip("abcde", (2_800.0, 5_200.0, 4_400.0, 4_200.0, 5_600.0), strict=True)
    ]
    run = opened(tmp_path, report(busy))
    assert sightline.findings(run)[0].rule == RULE
