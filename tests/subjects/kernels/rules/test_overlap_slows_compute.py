"""overlap-slows-compute: kernels take longer beside communication than alone."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import kernel, launched, opened

RULE, NCCL = "overlap-slows-compute", "ncclDevKernel_AllReduce"


def overlapped(folder: Path, beside: int, number: int = 5, alone: int = 100) -> Run:
    """Kernels of one shape: five alone, then `number` beside one communication kernel."""
    lengths = [alone] * 5 + [beside] * number
    shape = {"grid": [8, 1, 1], "block": [64, 1, 1]}
    work = [
        launched(10 * i, kernel("gemm", 100 + sum(lengths[:i]), length, **shape))
        for i, length in enumerate(lengths)
    ]
    begin = 100 + 5 * alone
    communication = launched(200, kernel(NCCL, begin, beside * number, stream=9))
    return opened(folder, [*work, communication])


def test_twice_as_long_beside_communication(tmp_path: Path) -> None:
    """Five times 100 µs too many in a window of 1,500. Alone all ten would end at 1,100, but the
    communication kernel goes on for its 1,000 µs: with that the window ends as it did.
    """
    assert_speaks(
        overlapped(tmp_path, 200),
        RULE,
        cost_ns=500_000,
        gain_ns=0,
        evidence=["5 × gemm, 1.000 ms"],
        fix="NCCL_MAX_CTAS",
        severity="warning",
    )


def test_four_instances_are_too_few(tmp_path: Path) -> None:
    assert_silent(overlapped(tmp_path, 200, number=4), RULE)


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    """5 × 11 of 1,055 µs are 5.2 %, 5 × 10 of 1,050 are 4.8 %."""
    assert_silent(overlapped(tmp_path / "a", 110), RULE)
    assert_speaks(
        overlapped(tmp_path / "b", 111),
        RULE,
        cost_ns=55_000,
        gain_ns=0,
        evidence=["5 × gemm, 555.0 µs"],
        fix="NCCL_MAX_CTAS",
    )


def test_faster_beside_communication(tmp_path: Path) -> None:
    assert_silent(overlapped(tmp_path, 90), RULE)


def test_communication_that_runs_alone(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("gemm", 0, 100), kernel(NCCL, 100, 100)])
    assert_silent(run, RULE)
