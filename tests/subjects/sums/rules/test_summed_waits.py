"""Calls alone: what the host waited for is in another table."""

from __future__ import annotations

from pathlib import Path

from support.printed import DOWN, MS, open_sums
from support.rules import answers, assert_silent, assert_speaks

RULE = "summed-waits"
CALLS = [
    ("cudaMalloc", 5, 213 * MS, 212 * MS),
    ("cudaMemcpy", 6, 76 * MS, 73 * MS),
    ("cudaLaunchKernel", 3, MS // 5, MS // 6),
]


def test_a_copy_that_waits_for_kernels(tmp_path: Path) -> None:
    found = assert_speaks(
        open_sums(tmp_path, calls=CALLS),
        RULE,
        cost_ns=76 * MS,
        gain_ns=None,
        evidence=["cudaMemcpy: 76.00 ms in 6 calls, 73.00 ms of it in one"],
        fix="cuda_gpu_kern_sum",
        states_limit=True,
    )
    assert "the host waits there for the kernels before them" in found.summary
    (start,) = answers(open_sums(tmp_path, calls=CALLS), "summed-start-up")
    assert "the GPU's work is in none of the tables" in start.summary


def test_the_gpus_tables_tell_it(tmp_path: Path) -> None:
    kernels = [("k", 3, 72 * MS, 70 * MS)]
    assert_silent(open_sums(tmp_path, calls=CALLS, kernels=kernels), RULE)
    copies = [(DOWN, 3, 72 * MS, 70 * MS)]
    assert_silent(open_sums(tmp_path, calls=CALLS, copies=copies), RULE)


def test_launching_takes_most(tmp_path: Path) -> None:
    calls = [("cudaLaunchKernel", 9000, 60 * MS, MS // 6), ("cudaMemcpy", 9, 20 * MS, 4 * MS)]
    assert_silent(open_sums(tmp_path, calls=calls), RULE)


def test_short_waits(tmp_path: Path) -> None:
    assert_silent(open_sums(tmp_path, calls=[("cudaMemcpy", 6, MS // 2, MS // 4)]), RULE)
