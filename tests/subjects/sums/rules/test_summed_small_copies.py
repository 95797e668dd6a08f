"""Thousands of copies of some bytes."""

from pathlib import Path

from support.printed import MS, UP, open_sums
from support.rules import assert_silent, assert_speaks

KERNELS = [("k()", 10, 10 * MS, MS)]
CALLS = [("cudaMemcpy", 10_000, 90 * MS, MS)]


def test_ten_thousand_of_eight_bytes(tmp_path: Path) -> None:
    run = open_sums(
        tmp_path,
        kernels=KERNELS,
        copies=[(UP, 10_000, 13 * MS, MS)],
        sizes=[(UP, 10_000, 0.08)],
        calls=CALLS,
    )
    assert_speaks(
        run,
        "summed-small-copies",
        cost_ns=80 * MS,
        gain_ns=80 * MS - 8_000,
        evidence=["10,000 copies of 8 B", "8.000 µs a call"],
        fix="one buffer",
    )


def test_large_ones_are_none(tmp_path: Path) -> None:
    run = open_sums(
        tmp_path,
        kernels=KERNELS,
        copies=[(UP, 10_000, 13 * MS, MS)],
        sizes=[(UP, 10_000, 1000.0)],
        calls=CALLS,
    )
    assert_silent(run, "summed-small-copies")


def test_few_are_none(tmp_path: Path) -> None:
    run = open_sums(tmp_path, kernels=KERNELS, copies=[(UP, 999, MS, MS)], calls=CALLS)
    assert_silent(run, "summed-small-copies")
