"""Traces that nvprof and nsys print: the same operations and calls as of their CSV."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import polars as pl

import sightline

GPU = """\
==4== NVPROF is profiling process 4, command: ./a
==4== Profiling application: ./a
==4== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput  SrcMemType  DstMemType           Device   Context    Stream  Name
     0ns  128.83us                    -               -         -         -         -  8.0000MB  60.641GB/s      Pinned      Device  Tesla V100-SXM2         1        14  [CUDA memcpy HtoD]
130.24us  10.500us           (4097 2 1)       (512 1 1)        16        0B  2.0000KB         -           -           -           -  Tesla V100-SXM2         1        14  scale(float const *, int) [129]
1.00500s  128.80us                    -               -         -         -         -  512.00KB  60.657GB/s      Device    Pageable  Tesla V100-SXM2         1         7  [CUDA memcpy DtoH]

Regs: Number of registers used per CUDA thread. This number includes registers used internally by the CUDA driver and/or tools and can be more than what the compiler shows.
"""
CALLS = """\
======== Profiling result:
   Start  Duration  Name
     0ns  2.4150us  cuDeviceGetCount
100.00us  5.0000us  cudaLaunchKernel (scale(float const *, int) [129])
110.00us  1.0000ms  cudaDeviceSynchronize
"""
BOTH = """\
==4== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*           Device   Context    Stream  Name
1.0000us  2.0000us                    -               -         -         -         -                -         -         -  cudaLaunch (k(int) [7])
5.0000us  9.0000us              (2 1 1)        (32 1 1)         8        0B        0B  Tesla K40m (1)         1         7  k(int) [7]
"""
PAGES = """\
==4== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*           Device   Context    Stream        Unified Memory  Virtual Address  Name
488.05ms         -                    -               -         -         -         -                -         -         -         PC 0x46de3225   0x7612d2000000  [Unified Memory CPU page faults]
490.00ms  10.000us                    -               -         -         -         -     Tesla T4 (0)         -         -           64.000KB   0x7612d2000000  [Unified Memory Memcpy HtoD]
490.10ms  100.00us                    -               -         -         -         -     Tesla T4 (0)         -         -                 2     0x7612d2000000  [Unified Memory GPU page faults]
490.20ms  30.000us             (16 1 1)       (256 1 1)        10        0B        0B     Tesla T4 (0)         1         7                 -                  -  add(int*) [112]
"""
NSYS = """\
 ** CUDA GPU Trace (cuda_gpu_trace):

 Start (ns)  Duration (ns)  CorrId  GrdX  GrdY  GrdZ  BlkX  BlkY  BlkZ  Reg/Trd  StcSMem (MB)  DymSMem (MB)  Bytes (MB)  Throughput (MB/s)  SrcMemKd  DstMemKd      Device       Ctx  Strm          Name
 ----------  -------------  ------  ----  ----  ----  ----  ----  ----  -------  ------------  ------------  ----------  -----------------  --------  --------  ---------------  ---  ----  -------------------
  1,000,000         50,000     117                                                                                2.000          4,000.000  Pageable  Device    NVIDIA A40 (0)     1     7  [CUDA memcpy HtoD]
  1,100,000         80,000     118    32     1     1   256     1     1       20         0.000         0.001                                                     NVIDIA A40 (0)     1     7  void f<int, 3>(int)

 ** CUDA API Trace (cuda_api_trace):

 Start (ns)  Duration (ns)         Name        Result  CorrID   Pid    Tid   T-Pri  Thread Name
 ----------  -------------  -----------------  ------  ------  -----  -----  -----  -----------
  1,090,000          6,000  cudaLaunchKernel        0     118     55     56     20  main
"""


def open_text(tmp_path: Path, text: str):
    path = tmp_path / "trace.txt"
    path.write_text(text)
    return sightline.open(str(path))


def test_a_trace_of_the_gpu(tmp_path: Path) -> None:
    run = open_text(tmp_path, GPU)
    ops = run.table("device_ops").sort("start_ns")
    assert ops.select("kind", "start_ns", "end_ns", "stream_id", "bytes", "copy_kind").rows() == [
        ("memcpy", 0, 128_830, 14, 8 << 20, "HtoD"),
        ("kernel", 130_240, 140_740, 14, None, None),
        ("memcpy", 1_005_000_000, 1_005_128_800, 7, 512 << 10, "DtoH"),
    ]
    kernel = ops.row(1, named=True)
    assert kernel["name"] == "scale(float const *, int)"
    assert (kernel["grid_x"], kernel["grid_y"], kernel["block_x"]) == (4097, 2, 512)
    assert (kernel["registers_per_thread"], kernel["dynamic_shared_bytes"]) == (16, 2048)
    assert ops["src_kind"].to_list() == ["pinned", None, "device"]
    assert run.table("devices")["name"].to_list() == ["Tesla V100-SXM2"]


def test_calls_and_the_kernels_that_they_launched(tmp_path: Path) -> None:
    run = open_text(tmp_path, CALLS)
    calls = run.table("host_ops").sort("start_ns")
    assert calls.select("layer", "name", "start_ns", "end_ns", "correlation_id").rows() == [
        ("driver", "cuDeviceGetCount", 0, 2_415, None),
        ("runtime", "cudaLaunchKernel", 100_000, 105_000, 129),
        ("runtime", "cudaDeviceSynchronize", 110_000, 1_110_000, None),
    ]


def test_both_in_one_table(tmp_path: Path) -> None:
    run = open_text(tmp_path, BOTH)
    (call,) = run.table("host_ops").rows(named=True)
    (kernel,) = run.table("device_ops").rows(named=True)
    assert (call["name"], kernel["name"], kernel["device_id"]) == ("cudaLaunch", "k(int)", 1)
    assert kernel["launch_id"] == call["host_op_id"]


def test_pages_of_unified_memory_are_no_kernels(tmp_path: Path) -> None:
    ops = open_text(tmp_path, PAGES).table("device_ops").sort("start_ns")
    assert ops.select("kind", "copy_kind", "bytes").rows() == [
        ("memcpy", "UVM HtoD", 64 << 10),
        ("kernel", None, None),
    ]


def test_traces_of_nsys_with_empty_cells(tmp_path: Path) -> None:
    run = open_text(tmp_path, NSYS)
    ops = run.table("device_ops").sort("start_ns")
    assert ops.select("kind", "start_ns", "end_ns", "bytes", "grid_x", "name").rows() == [
        ("memcpy", 1_000_000, 1_050_000, 2_000_000, None, "[CUDA memcpy HtoD]"),
        ("kernel", 1_100_000, 1_180_000, None, 32, "void f<int, 3>(int)"),
    ]
    (call,) = run.table("host_ops").rows(named=True)
    assert ops["launch_id"].to_list() == [None, call["host_op_id"]]


def test_two_rows_in_one_line_are_no_name(tmp_path: Path) -> None:
    """The first is lost with the second, and both are said."""
    joined = NSYS.replace("[CUDA memcpy HtoD]\n", "[CUDA memcpy HtoD]")
    assert joined != NSYS
    run = open_text(tmp_path, joined)
    assert "[CUDA memcpy HtoD]" not in "".join(run.table("device_ops")["name"].to_list())
    assert run.table("quality").filter(pl.col("count") > 0).height


def test_the_last_of_several_traces(tmp_path: Path) -> None:
    run = open_text(tmp_path, GPU + BOTH.replace("==4==", "==5=="))
    assert run.table("device_ops")["name"].to_list() == ["k(int)"]
    assert "several_runs" in run.table("quality")["kind"].to_list()


COUNTERS = """\
==2== NVPROF is profiling process 2, command: ./a
==2== Warning: Some kernel(s) will be replayed on device 0 in order to collect all events/metrics.
==2== Profiling application: ./a
==2== Profiling result:
==2== Event result:
Invocations                                Event Name         Min         Max         Avg       Total
Device "GeForce GTX 1060 (0)"
    Kernel: step(float*, int)
        100                            warps_launched          64          64          64        6400

==2== Metric result:
Invocations                               Metric Name                        Metric Description         Min         Max         Avg
Device "GeForce GTX 1060 (0)"
	Kernel: step(float*, int)
        100                        achieved_occupancy                        Achieved Occupancy    0.750000    0.950000    0.850000
        100                      dram_read_throughput             Device Memory Read Throughput  1.0000GB/s  3.0000GB/s  2.5000GB/s
        100                             flop_count_dp  Floating Point Operations(Double Precisi         512         512         512
        100                          dram_utilization                 Device Memory Utilization     Low (1)    High (8)     Mid (4)
        100                         branch_efficiency                         Branch Efficiency     100.00%     100.00%      99.50%
    Kernel: other(int)
          1                             inst_executed                     Instructions Executed  1.2000e+10  1.2000e+10  1.2000e+10
"""
COUNTERS_CSV = """\
==2== Metric result:
"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"Tesla K20c (0)","step(float*, int)",3,"flop_count_sp","Floating Point Operations(Single Precision)",8,8,8
"Tesla K20c (0)","step(float*, int)",3,"dram_utilization","Device Memory Utilization","Low (1)","Low (2)","Low (1)"
"""


def list_metrics(run) -> list[tuple[object, ...]]:
    return run.table("kernel_metrics").select("kernel_id", "metric", "unit", "value", "text").rows()


def test_counters_of_kernels(tmp_path: Path) -> None:
    run = open_text(tmp_path, COUNTERS)
    kernels = run.table("profiled_kernels").select("name", "device_id", "duration_ns").rows()
    assert kernels == [("step(float*, int)", 0, None), ("other(int)", 0, None)]
    assert list_metrics(run) == [
        (0, "nvprof__invocations", None, 100.0, None),
        (0, "warps_launched", "warps", 64.0, None),
        (0, "achieved_occupancy", None, 0.85, None),
        (0, "sm__warps_active.avg.pct_of_peak_sustained_active", "%", 85.0, None),
        (0, "dram_read_throughput", "GB/s", 2.5, None),
        (0, "flop_count_dp", None, 512.0, None),
        (0, "dram_utilization", "of 10", 4.0, "Mid (4)"),
        (0, "branch_efficiency", "%", 99.5, None),
        (1, "nvprof__invocations", None, 1.0, None),
        (1, "inst_executed", "inst", 1.2e10, None),
        (1, "smsp__inst_executed.sum", "inst", 1.2e10, None),
    ]
    assert run.table("devices")["name"].to_list() == ["GeForce GTX 1060"]


def test_counters_as_csv(tmp_path: Path) -> None:
    run = open_text(tmp_path, COUNTERS_CSV)
    assert [row[1:] for row in list_metrics(run)] == [
        ("nvprof__invocations", None, 3.0, None),
        ("flop_count_sp", None, 8.0, None),
        ("dram_utilization", "of 10", 1.0, "Low (1)"),
    ]


def test_a_kernel_with_counters_and_sums(tmp_path: Path) -> None:
    times = """\
==2== Trace result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  3.0000ms       100  30.000us  29.000us  31.000us  step(float*, int)
"""
    run = open_text(tmp_path, COUNTERS + times)
    assert run.table("profiled_kernels")["duration_ns"].to_list() == [30_000, None]
    assert run.table("call_sums").select("name", "calls").rows() == [("step(float*, int)", 100)]
