"""What is faster than a first version, beside the first finding about a profiled kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.declare import Finding
from support.profiled import DRAM, MEMORY, SM, TIME, opened
from synth_ncu import Kernel, report

WAITS = {TIME: 10_000.0, SM: 20.0, MEMORY: 30.0, DRAM: 30.0}
AT_MEMORY = {TIME: 10_000.0, SM: 20.0, MEMORY: 92.0, DRAM: 92.0}


def judge(folder: Path, *kernels: tuple[str, dict[str, float]]) -> list[Finding]:
    made = [
        Kernel(name=name, grid=(1600, 1, 1), block=(256, 1, 1), metrics=metrics)
        for name, metrics in kernels
    ]
    return [f for f in sightline.findings(opened(folder, report(made))) if not f.abstained]


def test_the_first_finding_of_each_own_kernel_says_it(tmp_path: Path) -> None:
    found = judge(tmp_path, ("bitonicSort", WAITS), ("matmul_naive", WAITS), ("update", WAITS))
    said = [f for f in found if f.fix and "Before tuning it" in f.fix]
    assert [f.where["kernel"] for f in said] == ["bitonicSort", "matmul_naive"]
    assert "CUB's DeviceRadixSort" in (said[0].fix or "")
    for each in said:
        first = next(f for f in found if f.where.get("kernel") == each.where["kernel"])
        assert first is each


@pytest.mark.parametrize(
    ("name", "says"), [("reduceSum", False), ("bitonicSort", True), ("matmul", True)]
)
def test_at_the_memorys_rate_some_cannot_be_faster(tmp_path: Path, name: str, says: bool) -> None:
    first = judge(tmp_path, (name, AT_MEMORY))[0]
    assert first.rule == "ncu-memory-limit"
    assert ("Before tuning it" in (first.fix or "")) is says


def test_a_librarys_kernel_is_none_of_ones_own(tmp_path: Path) -> None:
    found = judge(tmp_path, ("void cub::DeviceReduceKernel<int>(int)", WAITS))
    assert not any("Before tuning it" in (f.fix or "") for f in found)


def test_a_sort_by_merging_of_a_library(tmp_path: Path) -> None:
    name = "void cub::DeviceMergeSortMergeKernel<cub::Policy, int *>(int *, MyLess)"
    first = judge(tmp_path, (name, AT_MEMORY))[0]
    assert (first.fix or "").startswith("keys of built-in types in the default order")
