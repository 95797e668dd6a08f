"""Recordings of collectives alone, as NCCL's tools make them: nothing says what they hold up."""

from __future__ import annotations

from pathlib import Path

from support.rules import assert_abstains, assert_silent, assert_speaks
from support.traces import kernel, launched, opened

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def test_what_they_could_overlap_is_not_known(tmp_path: Path) -> None:
    run = opened(tmp_path, [launched(700 * n, kernel(NCCL, 20 + 700 * n, 600)) for n in range(3)])
    assert_abstains(run, "exposed-communication", "nothing computes in the recording")
    assert_silent(run, "hardly-any-work")


def test_with_a_kernel_beside_them_it_is(tmp_path: Path) -> None:
    events = [launched(0, kernel(NCCL, 20, 600)), launched(10, kernel("gemm", 620, 600))]
    assert_speaks(
        opened(tmp_path, events),
        "exposed-communication",
        cost_ns=600_000,
        gain_ns=600_000,
        evidence=["600.0 µs of communication on 1 GPU"],
        fix="start communication earlier",
    )
