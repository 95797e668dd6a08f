"""Public reports of files that tools misread, rebuilt small: what is said of each, and what not.

docs/accuracy.md lists them with their sources, and what was missed before it was mended.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.public_reports import BASE_US, Report, check_report, make_launch

BLANK = 9223372036854775794  # DCGM_INT64_NOT_SUPPORTED


EVENTS = [event for n in range(10) for event in make_launch(n + 1, BASE_US + n * 100)]
ZERO = [{**event, "ts": 0} if n == 1 else event for n, event in enumerate(EVENTS)]
CPU = {"ph": "X", "cat": "cpu_op", "name": "c10d::barrier", "pid": 9, "tid": 9, "ts": BASE_US,
       "dur": 1567655, "args": {"Trace name": "PyTorch Profiler"}}  # fmt: skip
ROCPROF = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
    '"Correlation_Id","Start_Timestamp","End_Timestamp","Duration_ns","LDS_Block_Size"\n'
) + "".join(
    f'"KERNEL_DISPATCH","Agent 4",1,0,9,{n},16,"gemm(float*)",{n},{n}000000,{n}000600,600,0\n'
    for n in range(1, 9)
)
MIG = "".join(
    f'DCGM_FI_DEV_FB_USED{{gpu="0",UUID="GPU-1",GPU_I_PROFILE="1g.11gb",GPU_I_ID="{n}"}} {n}\n'
    for n in (7, 8)
)
INSTANCES = "+----------+\n| Compute instance profiles:   |\n| GPU Name |\n+----------+\n"
JOURNAL = (
    "Nov 15 14:15:47 node nv-fabricmanager[4177]: request to query NVSwitch device information from"
    " NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n"
)
FABRIC = (
    "==============NVSMI LOG==============\n\nGPU 00000000:81:00.0\n    Fan Speed       : 5 %\n"
    "    Fabric\n        State       : In Progress\n        Status      : N/A\n"
)
SUMS = (
    "Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation\n"
    "60.0,600,3,200.0,200.0,100,300,0.0,[CUDA memcpy Host-to-Device]\n"
)


REPORTS = (
    Report("catapult-project/catapult#3006", "t.json", json.dumps({"traceEvents": {
        "traceEvents": EVENTS}}), 2, (r"not a list of events", r"jq"), (r"no 'traceEvents'",)),
    Report("google/perfetto#393", "t.json", json.dumps({"traceEvents": EVENTS}), 0,
           (r"window 950\.0 µs", r"10 GPU operations")),
    Report("google/perfetto#365", "t.json", json.dumps({"traceEvents": [CPU]}), 0,
           (r"1\.568 s", r"communication")),
    Report("torch-spyre/torch-spyre#3540", "t.json", json.dumps({"traceEvents": ZERO}), 0,
           (r"window 8\d\d\.0 µs",), (r"1780000000", r"idle +-")),
    Report("ROCm/rocm-systems#1841", "a_kernel_trace.csv", ROCPROF, 0,
           (r"8 GPU operations", r"4\.800 µs")),
    Report("NVIDIA/gpu-monitoring-tools#152", "m.prom",
           f'DCGM_FI_DEV_GPU_UTIL{{gpu="0"}} {BLANK}\nDCGM_FI_DEV_POWER_USAGE{{gpu="0"}} 50.5\n',
           0, (r"power, GPU 0 \(W\) +50\.5", r"blank"), (r"utilization", r"9223372")),
    Report("NVIDIA/gpu-monitoring-tools#4", "m.prom",
           'dcgm_nvlink_replay_error_count_total{gpu="0"} \ndcgm_gpu_temp{gpu="0"} 40\n'
           'dcgm_power_usage{gpu="0"} 51.2\n', 0, (r"51\.2", r"1 line")),
    Report("NVIDIA/gpu-monitoring-tools#4, dmon", "d.txt",
           "# gpu pwr rxpci\n# Idx W MB/s\n    0   51   12\n    0     N/A161262243332996445\n", 0,
           (r"1 line that could not be read", r"51")),
    Report("NVIDIA/dcgm-exporter#700", "d.txt",
           "#Entity   XIDER        GNVERR\nID\nGPU 0     N/A          N/A\n", 2,
           (r"no line of it has a value",)),
    Report("NVIDIA/dcgm-exporter#544", "m.prom", MIG, 0, (r"7 \(1g\.11gb\)", r"8 \(1g\.11gb\)")),
    Report("guilbaults/slurm-job-exporter#30", "m.prom",
           'DCGM_FI_PROF_SM_ACTIVE{gpu="0"} 140737488355328.0\n'
           'DCGM_FI_DEV_POWER_USAGE{gpu="0"} 69.437\n', 0, (r"69\.4", r"blank"), (r"14073",)),
    Report("NVIDIA/go-nvml#146", "mig.txt", INSTANCES, 2, (r"instances of divided GPUs",)),
    Report("NVIDIA/gpu-operator#610", "j.log", JOURNAL, 0, (r"request to query NVSwitch",)),
    Report("NVIDIA/gpu-operator#2511", "q.txt", FABRIC, 0, (r"state In Progress",)),
    Report("tenstorrent/tt-metal#48043", "ops.csv",
           "OP CODE,DEVICE KERNEL DURATION [ns],OP TO OP LATENCY [ns]\nMatmul,6923932741,-6924\n",
           2, (r"no known format",)),
    Report("rossumai/nvgpu#12", "smi.txt",
           "| NVIDIA-SMI 430.14       Driver Version: 430.14       CUDA Version: 10.2     |\n"
           "|   0  GeForce GTX TIT...  Off  | 00000000:01:00.0 Off |                  N/A |\n"
           "| 27%   45C    P0    81W / 250W |      0MiB /  6083MiB |      0%      Default |\n",
           0, (r"GeForce GTX TIT", r"81\.0")),
    Report("rossumai/nvgpu#21", "l.txt",
           "GPU 0: A100-SXM4-40GB (UUID: GPU-2ac)\n"
           "  MIG 3g.20gb Device 0: (UUID: MIG-GPU-2ac/1/0)\n", 2, (r"list of GPUs",)),
    Report("nsys stats, cuda_gpu_mem_time_sum", "s.csv", SUMS, 0, (r"600 ns", r"Host-to-Device")),
)  # fmt: skip


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.thread)
def test_what_is_said(tmp_path: Path, report: Report) -> None:
    check_report(tmp_path, report)
