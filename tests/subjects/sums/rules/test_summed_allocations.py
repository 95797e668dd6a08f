"""Allocations that come again, without the first, which creates the context."""

from pathlib import Path

from support.printed import MS, open_sums
from support.rules import assert_silent, assert_speaks

KERNELS = [("k()", 300, 80 * MS, MS)]


def test_pairs_in_a_loop(tmp_path: Path) -> None:
    calls = [
        ("cudaMalloc", 101, 110 * MS, 100 * MS),
        ("cudaFree_v3020", 100, 10 * MS, MS),
        ("cudaDeviceSynchronize", 2, 80 * MS, 70 * MS),
    ]
    found = assert_speaks(
        open_sums(tmp_path, kernels=KERNELS, calls=calls),
        "summed-allocations",
        cost_ns=20 * MS,
        gain_ns=20 * MS,
        evidence=["200 calls", "cudaMalloc: 10.00 ms in 100 calls", "300 kernels"],
        fix="allocate once",
    )
    assert found.cost_pct == 20.0  # of 100 ms of calls that repeat


def test_a_handful_is_no_loop(tmp_path: Path) -> None:
    calls = [("cudaMalloc", 10, 110 * MS, 100 * MS), ("cudaFree", 10, 10 * MS, MS)]
    assert_silent(open_sums(tmp_path, kernels=KERNELS, calls=calls), "summed-allocations")


def test_under_a_twentieth(tmp_path: Path) -> None:
    calls = [("cudaMalloc", 100, 3 * MS, MS)]
    assert_silent(open_sums(tmp_path, kernels=KERNELS, calls=calls), "summed-allocations")
