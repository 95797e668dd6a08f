"""The kernel that takes most, and whether it is what the GPU does most."""

from pathlib import Path

from support.printed import MS, UP, open_sums
from support.rules import answers, assert_abstains, assert_silent, assert_speaks

KERNELS = [("void bodyForce(Body*)", 10, 60 * MS, 7 * MS), ("add(int*)", 5, 20 * MS, 5 * MS)]


def test_three_quarters_of_kernel_time(tmp_path: Path) -> None:
    calls = [("cudaDeviceSynchronize", 10, 75 * MS, 9 * MS)]
    found = assert_speaks(
        open_sums(tmp_path, kernels=KERNELS, calls=calls),
        "summed-kernel",
        cost_ns=60 * MS,
        gain_ns=None,
        evidence=["75.0 %", "`bodyForce`", "10 launches of 6.000 ms", "no cost of their own"],
        fix="ncu --set full -k regex:bodyForce -c 1",
        states_limit=True,
    )
    assert found.cost_pct == 75.0
    assert "tile" in found.fix or "shared memory" in found.fix


def test_a_copy_is_longer(tmp_path: Path) -> None:
    run = open_sums(tmp_path, kernels=KERNELS, copies=[(UP, 3, 61 * MS, 30 * MS)])
    (found,) = answers(run, "summed-kernel")
    assert not found.states_limit


def test_under_a_tenth_of_the_work(tmp_path: Path) -> None:
    run = open_sums(tmp_path, kernels=KERNELS, copies=[(UP, 3, 521 * MS, 300 * MS)])
    assert_silent(run, "summed-kernel")


def test_no_kernel_in_the_tables(tmp_path: Path) -> None:
    run = open_sums(tmp_path, calls=[("cudaFree", 1, MS, MS)])
    assert_abstains(run, "summed-kernel", "cuda_gpu_kern_sum")
