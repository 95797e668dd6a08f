"""Public reports of files that readers misread, rebuilt small: the third round.

docs/accuracy.md lists them with their sources, and what was missed before it was mended.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from support.public_reports import BASE_US, Report, check_report, make_launch
from support.xplane_planes import write_planes

Event = dict[str, Any]


def trace(events: list[Event], *, is_torch: bool = True) -> str:
    return json.dumps({**({"schemaVersion": 1} if is_torch else {}), "traceEvents": events})


def span(name: str, ts: float, dur: float, cat: str = "cpu_op", **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur,
            "args": args}  # fmt: skip


def exchange(n: int) -> Event:
    """An all-reduce of 100 µs behind nine kernels of 100 µs, on a stream of its own."""
    return {"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce_RING_LL_Sum_float", "pid": 0,
            "tid": 20, "ts": BASE_US + n * 1000 + 900, "dur": 100,
            "args": {"device": 0, "stream": 20}}  # fmt: skip


A800 = [
    event
    for n in range(10)
    for event in (
        *({**make_launch(1, BASE_US + n * 1000)[1], "ts": BASE_US + n * 1000 + k * 100, "dur": 100}
          for k in range(9)),
        exchange(n),
    )
]  # fmt: skip
# A launch's answer comes back later than the slice around it ends, by less than a microsecond.
OVERLAP = [span("PjitFunction(matmul)", BASE_US + n * 100, 50.3, "") for n in range(10)] + [
    span("PjRtCApiBuffer::Await", BASE_US + n * 100 + 40, 10.8, "") for n in range(10)
]
NEGATIVE = [{**span("RenderProcessHostImpl::Send", 142.042, 5836.136, "toplevel"),
             "tdur": -877330.108, "tts": 12.0}]  # fmt: skip
CROSSING = [
    span("aten::_local_scalar_dense", BASE_US, 900),
    span("ProfilerStep#8", BASE_US + 400, 1000, "user_annotation"),
    span("ProfilerStep#9", BASE_US + 1400, 1000, "user_annotation"),
    *[event for n in range(20) for event in make_launch(n + 1, BASE_US + 410 + n * 90)],
]
EXPORTER = (
    "timestamp, driver_version, name, uuid, pci.bus_id, fan.speed [%], utilization.gpu [%], "
    "power.draw [W]\n"
    "2022/03/22 20:23:46.283, 510.47.03, NVIDIA A100-PCIE-40GB, GPU-7bdeeff7, 00000000:17:00.0, "
    "[N/A], 35 %, 61.20 W\n"
)
BAR = "2004, 2004, 0, 44, [N/A], 0, 0\n"
K80 = (
    "| NVIDIA-SMI 390.59                 Driver Version: 390.59                    |\n"
    "|   0  Tesla K80           Off  | 0000460E:00:00.0 Off |                    0 |\n"
    "| N/A   37C    P8    27W / 149W |      0MiB / 11441MiB |      0%      Default |\n"
    "|   1  Tesla K80           Off  | 00006180:00:00.0 Off |                    0 |\n"
    "| N/A   33C    P8    33W / 149W |      0MiB / 11441MiB |      0%      Default |\n"
)
NCCL_HEAD = (
    "# nThread 1 nGpus 2 minBytes 8388608 maxBytes 33554432 step: 2(factor) warmup iters: 5\n"
    "#   Rank  0 Pid  10 on host device  0 [0x07] Tesla V100-SXM2-16GB\n"
    "#   Rank  1 Pid  10 on host device  1 [0x0f] Tesla V100-SXM2-16GB\n"
    "#       size         count    type   redop     time   algbw   busbw  error     time   algbw"
    "   busbw  error\n"
)
NCCL_ROW = "{:>12} {:>13}   float     sum   {}   11.00   11.00  0e+00   {}   11.00   11.00  0e+00\n"
NCCL_MIXED = (
    NCCL_HEAD
    + NCCL_ROW.format(8388608, 2097152, 762.6, 762.7)
    + "host:10:12 [0] NCCL INFO Launch mode Group/CGMD\n"
    + NCCL_ROW.format(16777216, 4194304, 1525.2, 1525.3)
    + "host:10:12 [1] NCCL INFO Channel 00 : 1[f0] -> 0[70] via P2P/IPC\n"
    + NCCL_ROW.format(33554432, 8388608, 3050.4, 3050.5)
)
UFTRACE = (
    '{"traceEvents":[\n'
    '{"ts":1.000,"ph":"B","pid":7,"name":"main"},\n{"ts":3.500,"ph":"E","pid":7,"name":"main"}\n'
    '], "displayTimeUnit": "ns", "metadata": {\n'
    '"command_line":"uftrace record -D 4 -t 1ms ./python -c print("hello") ",\n'
    '"recorded_time":"Fri Oct 20 13:07:07 2017"\n} }\n'
)
BUSY = write_planes(
    [], [(n * 1000, n * 1000 + 1000, "gemm", n + 1, None) for n in range(100)], tid=1, stream=13
)
_MIB = 1 << 20


def make_block(address: int, size: int) -> Event:
    return {"address": address, "size": size, "requested_size": size, "state": "active_allocated",
            "frames": []}  # fmt: skip


def make_segment(address: int, size: int) -> Event:
    return {"device": 0, "address": address, "total_size": size, "allocated_size": size,
            "active_size": size, "stream": 0, "segment_type": "large", "is_expandable": False,
            "blocks": [make_block(address, size)], "frames": []}  # fmt: skip


# The first segment's block is in no event: it was there before the history began.
GHOST = pickle.dumps(
    {"segments": [make_segment(1 << 40, 96 * _MIB), make_segment(1 << 41, 32 * _MIB)],
     "device_traces": [[
         {"action": "segment_alloc", "addr": 1 << 41, "size": 32 * _MIB, "stream": 0,
          "time_us": 100, "frames": []},
         {"action": "alloc", "addr": 1 << 41, "size": 32 * _MIB, "stream": 0, "time_us": 101,
          "frames": []}]]}
)  # fmt: skip
KNAME = (
    b'{"rocprofiler-sdk-tool": [{"metadata": {"node": {}, "init_time": 1000, "fini_time": 9000, '
    b'"pid": 7}, "agents": [], "strings": {"callback_records": [], "buffer_records": [{"kind": '
    b'"KERNEL_DISPATCH", "operations": ["NONE"]}, {"kind": "HIP_RUNTIME_API", "operations": '
    b'["hipModuleGetFunction"]}]}, "kernel_symbols": [], "buffer_records": {"hip_api": [{'
    b'"size": 1, "kind": 1, "operation": 0, "correlation_id": {"internal": 1, "external": 0}, '
    b'"thread_id": 7, "start_timestamp": 2000, "end_timestamp": 3500, "args": [{"name": "kname", '
    b'"value": "'
) + b'\xd0\x9a\xff\xfe\x80"}]}], "kernel_dispatch": []}}]}'
OMNITRACE = b"\x0a\x08\x40\x80\xa0\x94\xa5\x8d\x1d\x50" * 3 + b"\x0f\x0f\x0f\x0f" * 40

REPORTS = (
    Report("HolisticTraceAnalysis#241", "t.json", trace(A800), 0,
           (r"compute +90\.0 %", r"exposed comm +10\.0 %")),
    Report("google/perfetto#6277", "t.json", trace(OVERLAP, is_torch=False), 0,
           (r"PjitFunction\(matmul\) .* 10 +503\.0 µs", r"Await .* 10 +108\.0 µs")),
    Report("catapult-project/catapult#1506", "t.json", trace(NEGATIVE, is_torch=False), 0,
           (r"5\.836 ms",), (r"-8\d\d", r"ends? before")),
    Report("meta-pytorch/torchtune#2323", "t.json", trace(CROSSING), 0,
           (r"20 GPU operations", r"1\.000 ms")),
    Report("utkuozdemir/nvidia_gpu_exporter#67", "s.csv", EXPORTER, 0,
           (r"NVIDIA A100-PCIE-40GB", r"61\.2", r"35\.0"), (r"fan", r"damaged", r"no line")),
    Report("enkore/i3pystatus#776", "s.csv", BAR, 2, (r"no known format",)),
    Report("BugRoger/nvidia-exporter#3", "s.txt", K80, 0,
           (r"2 × Tesla K80", r"27\.0", r"33\.0", r"37\.0")),
    Report("NVIDIA/nccl-tests#42", "n.log", NCCL_MIXED, 0,
           (r"8\.389 MB +762\.6", r"16\.78 MB +1\.525", r"33\.55 MB +3\.050"), (r"left out",)),
    Report("NVIDIA/aicr#1690", "n.log", NCCL_HEAD, 2, (r"no line of results",)),
    Report("namhyung/uftrace#183", "t.json", UFTRACE, 0, (r"main .* 1 +2\.500 µs",),
           (r"ends in the middle", r"ProfilerActivity")),
    Report("openxla/xprof#564", "h.xplane.pb", BUSY, 0, (r"compute +100\.0 %", r"idle +0\.0 %")),
    Report("pytorch/pytorch#179491", "s.pickle", GHOST, 0,
           (r"peak of 134\.2 MB on GPU 0: from earlier 75\.0 %",)),
    Report("ROCm/rocprofiler#104", "results.json",
           ',{"args":{"name":"COPY"},"ph":"M","pid":1,"name":"process_name","sort_index":0}\n', 2,
           (r"rocprof|no event|cut off|no known format",)),
    Report("mudler/vllm.cpp#3051", "a_results.json", KNAME, 0,
           (r"hipModuleGetFunction .*1\.500 µs",)),
    Report("ROCm/omnitrace#422", "perfetto-trace-8461.proto", OMNITRACE, 2,
           (r"damaged|cut off",), (r"packets hold no",)),
)  # fmt: skip


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.thread)
def test_what_is_said(tmp_path: Path, report: Report) -> None:
    check_report(tmp_path, report)
