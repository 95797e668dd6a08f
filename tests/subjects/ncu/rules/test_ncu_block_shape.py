"""ncu-block-shape: one kernel over as many threads in blocks of two shapes."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.profiled import SM, TIME, opened
from support.rules import answers, assert_silent, assert_speaks
from synth_ncu import Kernel, report

RULE = "ncu-block-shape"
NAME = "transpose(float *, float *)"


def run_of(folder: Path, *launches: tuple[tuple[int, int], int, float]) -> Run:
    kernels = [
        Kernel(name=NAME, grid=(blocks, 1, 1), block=(*block, 1), metrics={TIME: ns, SM: 30.0})
        for block, blocks, ns in launches
    ]
    return opened(folder, report(kernels))


def test_wide_blocks_take_thrice_as_long(tmp_path: Path) -> None:
    """1,024 × 1,024 threads: two launches of 60 µs where 20 µs were seen."""
    run = run_of(
        tmp_path,
        *[((16, 16), 4096, 20_000.0)] * 2,
        *[((32, 32), 1024, 60_000.0)] * 2,
        ((32, 16), 2048, 21_000.0),
    )
    assert_speaks(
        run,
        RULE,
        cost_ns=80_000,
        gain_ns=80_000,
        evidence=[
            "With blocks of 32 × 32 it takes 3.0 times as long as with 16 × 16",
            "over the same 1,048,576 threads",
            "32 × 16: 21.00 µs, 1 launch",
        ],
        fix="blocks of 16 × 16",
        severity="warning",
        confidence="medium",
    )


def test_other_numbers_of_threads_are_other_work(tmp_path: Path) -> None:
    assert_silent(run_of(tmp_path, ((16, 16), 1024, 20_000.0), ((32, 32), 1024, 60_000.0)), RULE)


def test_equal_shapes_that_vary(tmp_path: Path) -> None:
    assert_silent(run_of(tmp_path, ((16, 16), 1024, 20_000.0), ((16, 16), 1024, 60_000.0)), RULE)


def test_a_row_of_threads_has_one_number(tmp_path: Path) -> None:
    run = run_of(tmp_path, ((256, 1), 64, 10_000.0), ((64, 1), 256, 30_000.0))
    (found,) = answers(run, RULE)
    assert "With blocks of 64 it takes 3.0 times as long as with 256" in found.summary


def test_blocks_that_do_not_divide_the_work(tmp_path: Path) -> None:
    """A million items: 31,250 blocks of 32 have as many threads, 3,907 of 256 have 192 more."""
    run = run_of(
        tmp_path,
        ((32, 1), 31_250, 13_400.0),
        ((128, 1), 7_813, 13_500.0),
        ((256, 1), 3_907, 18_200.0),
    )
    (found,) = answers(run, RULE)
    assert "With blocks of 256 it takes 1.4 times as long as with 32" in found.summary
    assert found.gain_ns == 4_800


def test_tiles_that_do_not_divide_a_plane(tmp_path: Path) -> None:
    """A plane of 1,000 × 1,000 in 63 × 63 tiles of 16 × 16, and in 32 × 125 of 32 × 8."""
    kernels = [
        Kernel(name=NAME, grid=(*grid, 1), block=(*block, 1), metrics={TIME: ns, SM: 30.0})
        for grid, block, ns in (
            ((63, 63), (16, 16), 60_000.0),
            ((32, 125), (32, 8), 20_000.0),
            ((20, 63), (16, 16), 30_000.0),  # a third of the plane
        )
    ]
    (found,) = answers(opened(tmp_path, report(kernels)), RULE)
    assert "With blocks of 16 × 16 it takes 3.0 times as long as with 32 × 8" in found.summary
    assert found.gain_ns == 40_000
