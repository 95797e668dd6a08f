"""unitrace's metrics of kernels: queried and sampled, names with commas, damage."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.formats.intel import unitrace_metrics
from support.damage import survive_damage

QUERIED = """\
=== Device Timing Summary ===

== Kernel Metrics ==

Kernel,Device,SubDeviceId,GpuTime[ns],AvgGpuCoreFrequencyMHz[MHz],XVE_ACTIVE[%],\
GPU_MEMORY_BYTE_READ[bytes],QueryBeginTime[ns],ReportsCount,
gemm<float, 3>[SIMD16 {56; 1; 1} {64; 8; 1}],0,0,4733040,999,90.354,848934528,1060957720,1,

Kernel,Device,SubDeviceId,GpuTime[ns],AvgGpuCoreFrequencyMHz[MHz],XVE_ACTIVE[%],\
GPU_MEMORY_BYTE_READ[bytes],QueryBeginTime[ns],ReportsCount,
gemm<float, 3>[SIMD16 {56; 1; 1} {64; 8; 1}],0,0,4504960,1034,90.63,874946432,1066080280,1,
"""
SAMPLED = """\
=== Device #1 Metrics ===

Kernel,GlobalInstanceId,SubDeviceId,GpuTime[ns],XVE_STALL[%],GPU_MEMORY_BYTE_READ[bytes]
"add[SIMD32 {4; 1; 1} {256; 1; 1}]",7,0,100,10,1000
"add[SIMD32 {4; 1; 1} {256; 1; 1}]",7,0,300,50,2000
"add[SIMD32 {4; 1; 1} {256; 1; 1}]",9,0,200,20,4000
"""


def open_text(folder: Path, text: str) -> sightline.Run:
    (folder / "metrics.csv").write_text(text)
    return sightline.open(str(folder / "metrics.csv"))


def test_each_query_is_an_execution(tmp_path: Path) -> None:
    run = open_text(tmp_path, QUERIED)
    columns = ("name", "occurrence", "device_id", "grid_x", "block_x", "block_y", "duration_ns")
    assert run.table("profiled_kernels").select(columns).rows() == [
        ("gemm<float, 3>", 0, 0, 56, 64, 8, 4_733_040),
        ("gemm<float, 3>", 1, 0, 56, 64, 8, 4_504_960),
    ]
    first = run.table("kernel_metrics").filter(
        kernel_id=run.table("profiled_kernels")["kernel_id"][0]
    )
    assert first.select("metric", "unit", "value", "value_int").rows() == [
        ("GpuTime", "ns", 4_733_040.0, 4_733_040),
        ("AvgGpuCoreFrequencyMHz", "1/s", 999e6, 999_000_000),
        ("XVE_ACTIVE", "%", 90.354, None),
        ("GPU_MEMORY_BYTE_READ", "bytes", 848_934_528.0, 848_934_528),
    ]


def test_samples_of_an_execution_add_up(tmp_path: Path) -> None:
    run = open_text(tmp_path, SAMPLED)
    kernels = run.table("profiled_kernels").select("name", "device_id", "duration_ns").rows()
    assert kernels == [("add", 1, 400), ("add", 1, 200)]
    metrics = run.table("kernel_metrics").select("metric", "value").rows()
    assert {("XVE_STALL", 40.0), ("GPU_MEMORY_BYTE_READ", 3000.0)} <= set(metrics)
    assert "sampled_metrics" in run.table("quality").get_column("kind").to_list()


@pytest.mark.parametrize("golden", [QUERIED, SAMPLED], ids=["queried", "sampled"])
def test_damage(tmp_path: Path, golden: str) -> None:
    survive_damage(unitrace_metrics.read, tmp_path / "x", golden)
