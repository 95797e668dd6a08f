"""Versions of one kernel in one report: the first finding about a slow one names the fast one."""

from __future__ import annotations

from pathlib import Path

import sightline
from support.profiled import MEMORY, SM, TIME, opened
from synth_ncu import Kernel, report


def find_first(folder: Path, **times: float) -> tuple[str, tuple[str, ...]]:
    """The fix and the evidence of the first finding about the longest kernel."""
    folder.mkdir(exist_ok=True)
    kernels = [
        Kernel(
            name=f"void {name}<(unsigned int)32>(float *)",
            grid=(4000, 1, 1),
            metrics={SM: 20.0, MEMORY: 20.0, "launch__waves_per_multiprocessor": 10.0, TIME: time},
        )
        for name, time in times.items()
    ]
    found = sightline.findings(opened(folder, report(kernels)))
    longest = max(times, key=lambda name: times[name])
    first = next(f for f in found if longest in str(f.where.get("kernel")) and f.fix)
    return str(first.fix), first.evidence


def test_a_version_that_is_five_times_faster(tmp_path: Path) -> None:
    fix, evidence = find_first(tmp_path, tile_v1=19.0e6, tile_v2=3.8e6, tile_v0=4.0e6)
    line = "tile_v2, by its name another version of it, takes 3.800 ms a launch: 5.0 times less"
    assert line in evidence
    assert fix.endswith("if it computes the same, see first what tile_v2 does differently")


def test_no_version_of_it_or_none_that_is_much_faster(tmp_path: Path) -> None:
    for number, times in enumerate(
        (
            {"tile_v1": 19.0e6, "tile_v2": 15.0e6},
            {"tile_v1": 19.0e6, "stencil_v2": 3.8e6},
            {"gemm": 19.0e6, "gemm_naive": 3.8e6},
        )
    ):
        fix, evidence = find_first(tmp_path / str(number), **times)
        assert "another version" not in " ".join(evidence) and "differently" not in fix
