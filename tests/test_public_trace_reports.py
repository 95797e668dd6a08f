"""More public reports of files that tools misread, rebuilt small: of traces and of logs.

docs/accuracy.md lists them with their sources, and what was missed before it was mended.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.public_reports import BASE_US, Report, check_report, make_launch

Event = dict[str, Any]


def trace(events: list[Event], *, is_torch: bool = True, **header: Any) -> str:
    """A document of PyTorch's, or of another program that writes Chrome's format."""
    return json.dumps(
        {**({"schemaVersion": 1} if is_torch else {}), **header, "traceEvents": events}
    )


def rounds(
    count: int, change: Callable[[int, Event], Event] = lambda _, event: event
) -> list[Event]:
    """Launches and their kernels, 100 µs apart, each changed by its number."""
    made = (make_launch(n + 1, BASE_US + n * 100) for n in range(count))
    return [change(n, event) for n, pair in enumerate(made) for event in pair]


def copy_for_long(n: int, event: Event) -> Event:
    """One kernel as a copy that ends 90 kernels later, on the same stream."""
    if n != 10 or event["cat"] != "kernel":
        return event
    return {**event, "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pinned)", "dur": 3150000}


def leave_numbers(_: int, event: Event) -> Event:
    """Calls and kernels of ROCm without correlation ids."""
    args = {key: value for key, value in event["args"].items() if key != "correlation"}
    return rename_launch({**event, "args": args})


def share_numbers(n: int, event: Event) -> Event:
    """Every second kernel has the number of the launch before its own."""
    number = n + 1 - n % 2 if event["cat"] == "kernel" else n + 1
    return rename_launch({**event, "args": {**event["args"], "correlation": number}})


def zero_numbers(n: int, event: Event) -> Event:
    """Every second kernel is of RCCL, and has no number."""
    if n % 2 == 0 or event["cat"] != "kernel":
        return rename_launch(event)
    args = {**event["args"], "correlation": 0, "stream": 9}
    return {**event, "name": "ncclDevKernel_Generic(ncclDevComm*)", "tid": 9, "args": args}


def rename_launch(event: Event) -> Event:
    return {**event, "name": "hipLaunchKernel"} if event["cat"] == "cuda_runtime" else event


def of_rank(rank: int) -> list[Event]:
    """Rank's calls and kernels, whose numbers are those of the other rank's too."""
    return [
        {**event, "pid": rank, "args": {**event["args"], "device": rank}}
        if event["cat"] == "kernel"
        else {**event, "pid": 100 + rank}
        for event in rounds(10)
    ]


def half(phase: str, name: str, at: int) -> Event:
    return {"ph": phase, "name": name, "pid": 1, "tid": 1, "ts": at, "cat": "FEE"}


CROSSING = [half("B", "time.time", 0), half("B", "released", 1000), half("E", "time.time", 2000),
            half("E", "released", 5000)]  # fmt: skip
BACKWARD = {"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: NllLoss",
            "pid": 26, "tid": 98, "ts": 1708722576381804, "dur": 7933, "args": {}}  # fmt: skip
KRAM = [{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "kram"}},
        {"name": "ZipExtract", "ph": "X", "tid": 0, "ts": 0.285, "dur": 28.678}]  # fmt: skip
XML = (
    '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v9.dtd">\n'
    "<nvidia_smi_log><driver_version>384.111</driver_version><attached_gpus>1</attached_gpus>"
    '<gpu id="00000000:01:00.0"><product_name>GeForce GT 730</product_name>'
    "<utilization><gpu_util>N/A</gpu_util></utilization>"
    "<temperature><gpu_temp>37 C</gpu_temp></temperature>"
    "<power_readings><power_draw>N/A</power_draw></power_readings></gpu></nvidia_smi_log>\n"
)
QUERY = (
    "==============NVSMI LOG==============\n\nAttached GPUs          : 1\nGPU 00000000:01:00.0\n"
    "    Product Name       : GeForce GTX 960M\n    Serial Number      : N/A\n"
    "    Utilization\n        Gpu            : 3 %\n"
    "    Power Readings\n        Power Draw     : N/A\n"
)
TABLE = (
    "| NVIDIA-SMI 525.89.02    Driver Version: 525.89.02    CUDA Version: 12.0     |\n"
    "|   0  NVIDIA GeForce ...  Off  | 00000000:01:00.0  On |                  N/A |\n"
    "| N/A   40C    P8    13W /  80W |    214MiB /  8192MiB |     21%      Default |\n"
    "|                               |                      |                  N/A |\n"
)
PMON = (
    "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command \n"
    "# Idx           #    C/G      %      %      %      %      %      %    name \n"
    "    0    1647159     C     87     41      -      -      -      -    python         \n"
    "    1          -     -      -      -      -      -      -      -    -              \n"
)
MIG = "".join(
    f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="GPU-1",GPU_I_PROFILE="1g.10gb",GPU_I_ID="{n}"}} 300\n'
    f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",UUID="GPU-1",GPU_I_ID="{n}"}} 0.{n}\n'
    for n in (7, 8)
)
NCU_HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
)
NCU_ROWS = "".join(
    '"0","1","app","127.0.0.1","gemm(float *)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",'
    f'"GPU Speed Of Light Throughput","{name}","{unit}","{value}"\n'
    for name, unit, value in (
        ("Duration", "usecond", "100.00"),
        ("Memory Throughput", "%", "80.00"),
        ("Compute (SM) Throughput", "%", "20.00"),
    )
)
NCU_RAW = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC","dram__throughput.avg.pct_of_peak_sustained_elapsed",'
    '"gpu__time_duration.sum"\n"","","","","","","","","","","","%","us"\n'
    '"0","1","app","127.0.0.1","gemm(float *)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",'
    '"80.00","100.00"\n'
)
COUNTERS = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size",'
    '"Kernel_Id","Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count",'
    '"SGPR_Count","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
) + "".join(
    f'{n},{n},"Agent 4",1,9,9,1048576,16,"vcopy",256,0,0,4,16,"SQ_WAVES",16384.0,{n}000,{n}500\n'
    for n in (1, 2, 3)
)
GPU_TRACE = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
    "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535\n"
SMI_ROW = "[N/A], 32510, 0, 32510, P0, 35, Tesla V100-SXM2-32GB, GPU-124-124, 0, 0, 3\n"
PROFILED = (r"gemm +1 +100\.0 µs +20 +80",)

REPORTS = (
    Report("AMD-AGI/Hyperloom#1116", "t.json", trace(rounds(100, copy_for_long)), 0,
           (r"window 9\.950 ms", r"cannot be trusted"), (r"d2h-in-step", r"3\.15\d s +\d")),
    Report("mlcommons/chakra#128", "t.json", trace(rounds(10, leave_numbers)), 0,
           (r"500\.0 µs", r"no number in common"), (r"Start recording before",)),
    Report("google/perfetto#978", "t.json", trace(of_rank(0) + of_rank(1), is_torch=False), 0,
           (r"2 × GPU", r"10 kernels have the number"), (r"lost", r"driver lock")),
    Report("HolisticTraceAnalysis#16", "t.json",
           trace([event for event in rounds(10) if event["cat"] == "kernel"]), 0,
           (r"10 GPU operations", r"causes of idle time are unknown")),
    Report("HolisticTraceAnalysis#107", "t.json", trace([BACKWARD]), 0,
           (r"no GPU operations", r"7\.933 ms")),
    Report("microsoft/pai#949", "q.xml", XML, 0, (r"37\.0",), (r"power", r"utilization")),
    Report("netdata/netdata#4892", "q.txt", QUERY, 0, (r"GTX 960M", r"utilization.* 3 "),
           (r"power",)),
    Report("anderskm/gputil#55", "s.txt", MISMATCH, 2, (r"differ in version",)),
    Report("greshake/i3status-rust#1769", "s.txt", TABLE, 0, (r"13\.0", r"21\.0")),
    Report("NordicHPC/sonar#183", "p.txt", PMON, 0, (r"87\.0", r"41\.0")),
    Report("influxdata/telegraf#7659", "s.csv", SMI_ROW, 2, (r"no known format",)),
    Report("jlfwong/speedscope#345", "t.json", trace(CROSSING, is_torch=False), 0,
           (r"released.* 4\.000 ms", r"time\.time.* 2\.000 ms"), (r"5\.000 ms",)),
    Report("pytorch/kineto#136", "t.json",
           trace([*rounds(10), {**make_launch(99, BASE_US + 310)[1], "name": "tiny", "dur": 0}]),
           0, (r"tiny +1 +0 ns", r"500\.0 µs")),
    Report("pytorch/kineto#1416", "t.json", trace(rounds(10, share_numbers)), 0,
           (r"5 kernels have the number",), (r"graph", r"profiler lost")),
    Report("ROCm/roctracer#100", "t.json", trace(rounds(10, zero_numbers)), 0,
           (r"5 of 10 GPU operations have no launch call",), (r"profiler lost",)),
    Report("NVIDIA/dcgm-exporter#353", "m.prom", MIG, 0,
           (r"power, GPU 0 \(W\) +300\.0", r"MIG 7"), (r"power, GPU 0, MIG",)),
    Report("meta-pytorch/KernelAgent#141", "k.csv",
           "==WARNING== Unable to deploy section files\n==PROF== Connected to process 1 (/app)\n"
           + NCU_HEAD + NCU_ROWS, 0, PROFILED),
    Report("accel-sim/accel-sim-framework#361", "k.csv",
           "==PROF== Disconnected from process 1\nTotal time: 3.2 s, verified\n"
           + NCU_HEAD + NCU_ROWS, 0, PROFILED),
    Report("meta-pytorch/KernelAgent#134", "k.csv", NCU_RAW, 0, (r"80\.0 % of its peak",)),
    Report("ROCm/rocm-systems#3257", "9_counter_collection.csv", COUNTERS, 0,
           (r"vcopy +3 +1\.500 µs",)),
    Report("google/perfetto#879", "t.json", trace(KRAM, is_torch=False), 0, (r"28\.68 µs",),
           (r"ProfilerActivity",)),
    Report("NVIDIA/TensorRT-LLM#7020", "g.csv", GPU_TRACE, 2, (r"a header and no row",)),
    Report("google/perfetto#274", "t.json", trace([{
        "name": "Frame", "ph": "X", "ts": 1236, "pid": 1, "tid": 1, "cat": "R", "dur": 13837451,
    }], is_torch=False, displayTimeUnit="ns"), 0, (r"13\.84 s",)),
)  # fmt: skip


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.thread)
def test_what_is_said(tmp_path: Path, report: Report) -> None:
    check_report(tmp_path, report)
