"""slow-variant: some instances of a kernel take over twice the median of their shape."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.rules import assert_abstains, assert_silent, assert_speaks
from support.traces import Event, call, kernel, launched, op, opened

RULE = "slow-variant"


def instances(
    folder: Path, slow: int, *, usual: int = 9, shapes: bool = True, grid: bool = True
) -> Run:
    """Kernels of 100 µs and one of `slow`, of one grid and, where recorded, one input shape."""
    lengths = [100] * usual + [slow]
    shape = {"grid": [8, 1, 1], "block": [64, 1, 1]} if grid else {}
    dims = {"Input Dims": [[4, 4]]} if shapes else {}
    events: list[Event | list[Event]] = []
    for i, length in enumerate(lengths):
        events += [
            op("aten::mm", 10 * i, 8, **dims),
            launched(10 * i + 1, kernel("gemm", 200 + sum(lengths[:i]), length, **shape)),
        ]
    return opened(folder, events)


def test_one_of_ten_takes_four_times_as_long(tmp_path: Path) -> None:
    assert_speaks(
        instances(tmp_path, 400),
        RULE,
        cost_ns=300_000,
        gain_ns=300_000,
        evidence=["1 × gemm, 400.0 µs"],
        fix="compare a slow instance with a typical one",
        severity="warning",
        confidence="low",
    )


def test_twice_the_median_is_usual_spread(tmp_path: Path) -> None:
    assert_silent(instances(tmp_path / "a", 200), RULE)
    assert_speaks(
        instances(tmp_path / "b", 201),
        RULE,
        cost_ns=101_000,
        gain_ns=101_000,
        evidence=["201.0 µs"],
        fix="compare",
    )


def test_nine_are_too_few(tmp_path: Path) -> None:
    assert_silent(instances(tmp_path, 400, usual=8), RULE)


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    """101 too many of 3,101 µs are 3.3 %."""
    assert_silent(instances(tmp_path, 201, usual=29), RULE)


def test_without_a_grid_no_two_are_alike(tmp_path: Path) -> None:
    assert_silent(instances(tmp_path, 400, grid=False), RULE)


def test_without_input_shapes_it_is_not_judged(tmp_path: Path) -> None:
    assert_abstains(instances(tmp_path, 400, shapes=False), RULE, "record_shapes=True")


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, [call("cudaMalloc", 0, 5)]), RULE)
