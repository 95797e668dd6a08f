"""kernel_join: profiled kernels beside their time in the program."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from support.ask import rows
from support.profiled import MEMORY, SM, TIME, profiled
from support.rules import assert_speaks
from support.traces import kernel, write
from synth_ncu import Kernel, report

FIELDS = (
    "name", "grid", "match", "launches", "profiled", "paired", "program_ns", "limit_pct",
    "distance_ns",
)  # fmt: skip


def launched(at: int, length: int, blocks: int, name: str = "scale(float*)") -> dict[str, object]:
    return kernel(name, at, length, grid=[blocks, 1, 1], block=[256, 1, 1])


def lit(sm: float, blocks: int, name: str = "scale(float *)") -> Kernel:
    metrics = {TIME: 1000.0, SM: sm, MEMORY: 10.0, "launch__waves_per_multiprocessor": 4.0}
    return Kernel(name=name, grid=(blocks, 1, 1), metrics=metrics)


def both(folder: Path, program: list[dict[str, object]], kernels: list[Kernel]) -> Run:
    """A timeline and a report of the same program, opened together."""
    timeline, path = write(folder, program), folder / "r.ncu-rep"
    path.write_bytes(report(kernels))
    return sightline.open(str(timeline), str(path))


def test_profiled_kernels_meet_the_program(tmp_path: Path) -> None:
    """At 20 % of its limit a kernel of 1,000 µs in the program could save 800; one of 8,000 µs at
    91 % only 720. Names are compared without arguments and the types of template values.
    """
    run = both(
        tmp_path,
        [
            launched(0, 400, 1600),
            launched(1_000, 5_000, 320),
            launched(7_000, 3_000, 320),
            launched(11_000, 600, 1600),
            launched(12_000, 50, 1, "other"),
        ],
        [lit(20.0, 1600), lit(91.0, 320), lit(91.0, 320), lit(50.0, 160, "void gone<(int)1>(int)")],
    )
    near = pytest.approx(91.0)
    assert rows(run, "kernel_join", *FIELDS) == [
        ("scale(float*)", "1600×1×1", "both", 2, 1, 1, 1_000_000, 20.0, 800_000),
        ("scale(float*)", "320×1×1", "both", 2, 2, 2, 8_000_000, near, 720_000),
        ("other", "1×1×1", "timeline only", 1, None, 0, 50_000, None, None),
        ("void gone<(int)1>(int)", "160×1×1", "report only", None, 1, None, None, 50.0, None),
    ]


def test_rules_count_time_in_the_program(tmp_path: Path) -> None:
    """50 µs in the program instead of 20 under the profiler; 80 % are left to the limit."""
    measured = lit(20.0, 1600)
    measured.metrics[TIME] = 20_000.0
    run = both(tmp_path, [launched(0, 50, 1600)], [measured])
    assert_speaks(
        run, "ncu-latency", cost_ns=40_000, gain_ns=40_000, evidence=["50.00 µs"], fix="warps"
    )


def test_a_report_alone_joins_nothing(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError):
        profiled(tmp_path, {}).ask("kernel_join")
