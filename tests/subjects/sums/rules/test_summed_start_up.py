"""What calls do once."""

from pathlib import Path

from support.printed import MS, open_sums
from support.rules import assert_silent, assert_speaks

KERNELS = [("k()", 300, 50 * MS, MS)]


def test_the_context_is_most_of_it(tmp_path: Path) -> None:
    calls = [("cudaMalloc", 3, 100 * MS, 99 * MS), ("cudaMemcpy", 10, 55 * MS, 50 * MS)]
    assert_speaks(
        open_sums(tmp_path, kernels=KERNELS, calls=calls),
        "summed-start-up",
        cost_ns=100 * MS,
        gain_ns=None,
        evidence=["cudaMalloc", "the GPU's work is 50.00 ms"],
        fix="nothing in the repeating part",
        severity="info",
        states_limit=True,
    )


def test_one_call_of_many(tmp_path: Path) -> None:
    calls = [("cudaMalloc", 101, 30 * MS, 20 * MS)]
    assert_speaks(
        open_sums(tmp_path, kernels=KERNELS, calls=calls),
        "summed-start-up",
        cost_ns=20 * MS,
        gain_ns=None,
        evidence=["20.00 ms in 1 call"],
        fix="nothing",
        states_limit=False,
    )


def test_little(tmp_path: Path) -> None:
    calls = [("cudaMalloc", 3, 4 * MS, 4 * MS), ("cudaMemcpy", 1, 55 * MS, 55 * MS)]
    assert_silent(open_sums(tmp_path, kernels=KERNELS, calls=calls), "summed-start-up")


def test_a_first_copy_that_waits_for_more_than_the_gpu_did(tmp_path: Path) -> None:
    calls = [("cudaMemcpyAsync", 101, 201 * MS, 200 * MS)]
    assert_speaks(
        open_sums(tmp_path, kernels=KERNELS, calls=calls),
        "summed-start-up",
        cost_ns=200 * MS,
        gain_ns=None,
        evidence=["200.0 ms in 1 call"],
        fix="nothing",
        states_limit=True,
    )


def test_launches_that_load_their_code(tmp_path: Path) -> None:
    kernels = [("k()", 20, MS, MS)]
    calls = [("cudaLaunchKernel", 20, 60 * MS, 12 * MS)]
    assert_speaks(
        open_sums(tmp_path, kernels=kernels, calls=calls),
        "summed-start-up",
        cost_ns=60 * MS,
        gain_ns=None,
        evidence=["60.00 ms in 20 calls"],
        fix="nothing",
    )
