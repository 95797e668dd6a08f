"""Launches that take longer than what they launch."""

from pathlib import Path

from support.printed import MS, open_sums
from support.rules import assert_silent, assert_speaks


def test_a_launch_is_longer_than_a_kernel(tmp_path: Path) -> None:
    run = open_sums(
        tmp_path,
        kernels=[("k()", 1000, 2 * MS, 3000)],
        calls=[("cudaLaunchKernel", 1000, 5 * MS, 9000)],
    )
    assert_speaks(
        run,
        "summed-launches",
        cost_ns=5 * MS,
        gain_ns=3 * MS,
        evidence=["5.000 µs", "2.000 µs", "the host sets the pace"],
        fix="CUDA graph",
    )


def test_a_wait_behind_each(tmp_path: Path) -> None:
    run = open_sums(
        tmp_path,
        kernels=[("k()", 1000, 4 * MS, 5000)],
        calls=[
            ("cudaLaunchKernel", 1000, 3 * MS, 9000),
            ("cudaDeviceSynchronize", 1000, 7 * MS, 9000),
        ],
    )
    found = assert_speaks(
        run,
        "summed-launches",
        cost_ns=10 * MS,
        gain_ns=6 * MS,
        evidence=["10.00 µs", "1,000 synchronizing calls: 7.000 ms"],
        fix="do not wait after each launch",
    )
    assert found.title == "The host waits for each launch"


def test_longer_kernels(tmp_path: Path) -> None:
    run = open_sums(
        tmp_path,
        kernels=[("k()", 1000, 5 * MS, 9000)],
        calls=[("cudaLaunchKernel", 1000, 4 * MS, 9000)],
    )
    assert_silent(run, "summed-launches")


def test_few_launches(tmp_path: Path) -> None:
    run = open_sums(
        tmp_path,
        kernels=[("k()", 99, 99_000, 9000)],
        calls=[("cudaLaunchKernel", 99, 400_000, 9000)],
    )
    assert_silent(run, "summed-launches")


def test_launches_that_load_code_are_start_up(tmp_path: Path) -> None:
    run = open_sums(
        tmp_path,
        kernels=[("k()", 300, 4 * MS, 90_000)],
        calls=[("cudaLaunchKernel", 300, 200 * MS, 9 * MS)],
    )
    assert_silent(run, "summed-launches")
