"""Memsets among the GPU's work."""

from pathlib import Path

from support.printed import MS, open_sums
from support.rules import assert_silent, assert_speaks

FILL = "[CUDA memset]"


def test_a_fifth_is_cleared(tmp_path: Path) -> None:
    run = open_sums(
        tmp_path,
        kernels=[("k()", 10, 80 * MS, MS)],
        copies=[(FILL, 100, 20 * MS, MS)],
        sizes=[(FILL, 100, 10_000.0)],
    )
    assert_speaks(
        run,
        "summed-fills",
        cost_ns=20 * MS,
        gain_ns=20 * MS,
        evidence=["20.0 %", "10.00 GB were cleared", "500 GB/s"],
        fix="clear only",
    )


def test_little_is_cleared(tmp_path: Path) -> None:
    run = open_sums(tmp_path, kernels=[("k()", 10, 97 * MS, MS)], copies=[(FILL, 1, 3 * MS, MS)])
    assert_silent(run, "summed-fills")
