"""Recordings of the smaller formats, each of about the size that is asked for, for format_speed.py.

Each is written as its tool writes it (docs/formats), with the names and numbers of a plain program.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


def write_rocprof_compute(folder: Path, size: int) -> Path:
    counters = [f"SQ_COUNTER_{n}" for n in range(200)] + [f"TCC_HIT[{n}]" for n in range(128)]
    facts = "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,Kernel_Name,Start_Timestamp,End_Timestamp"
    row = ",".join(str(1_000_000 + n) for n in range(len(counters)))
    with (folder / "pmc_perf.csv").open("w") as stream:
        stream.write(f"{facts},{','.join(counters)}\n")
        for n in range(size // (len(row) + 60)):
            stream.write(f'{n},0,65536,256,"scale(float*)",{n * 1000},{n * 1000 + 900},{row}\n')
    return folder


def write_rocprof_legacy(folder: Path, size: int) -> Path:
    path = folder / "results.txt"
    with path.open("w") as stream:
        at = 10**12
        for n in range(size // 190):
            stream.write(
                f"{at}:{at + 900} 9:11 hipLaunchKernel(function=0x1, args=(int) {{1}}) :{n}\n"
            )
            stream.write(f"{at + 1000}:{at + 3000} 0:1 scale(float*, int):{n}:9\n")
            at += 4000
    return path


def write_rocprof_att(folder: Path, size: int) -> Path:
    path = folder / "code.json"
    row = ["v_add_u32_e32 v2, 16, v97", 0, 40, "/x/kernel.cpp:539", 2, 0, 30, 900, 700, 50, 3, 5]
    rows = [["; kernel", 0, 0, "scale(float*)", 2, 4096, *[0] * 6, [0] * 10]]
    reasons = [0, 0, 1, 4, 0, 0, 0, 0, 0, 0]
    rows += [[*row[:5], 4100 + 4 * n, *row[6:], reasons] for n in range(size // 130)]
    path.write_text(json.dumps({"code": rows, "header": ["ISA"], "version": "3.0.0"}))
    return path


def write_proton_trace(folder: Path, size: int) -> Path:
    path = folder / "proton.chrome_trace"
    args = {"call_stack": ["ROOT", "forward", "gemm"]}
    lines = []
    for stream in range(4):
        events = [
            {"args": args, "cat": "kernel", "dur": 5.501, "name": "gemm", "ph": "X", "tid": stream}
            | {"ts": n * 10.25}
            for n in range(size // 4 // 115)
        ]
        document = {"displayTimeUnit": "us", "traceEvents": events}
        lines.append(json.dumps(document, separators=(",", ":")))
    path.write_text("\n".join(lines))
    return path


def write_rocprof_table(folder: Path, size: int) -> Path:
    path = folder / "results.csv"
    with path.open("w") as stream:
        stream.write("Index,KernelName,gpu-id,queue-id,pid,tid,grd,wgr,lds,scr,arch_vgpr,sgpr,")
        stream.write("SQ_WAVES,DispatchNs,BeginNs,EndNs,CompleteNs,DurationNs\n")
        for n in range(size // 118):
            at = 10**12 + 4000 * n
            shape = "8,0,9,9,1024,256,0,32,16,32"
            times = f"{at},{at + 100},{at + 900},{at + 950},800"
            stream.write(f'{n},"scale(float*) [clone .kd]",{shape},16,{times}\n')
    return path


def write_rocprofv3_csv(folder: Path, size: int) -> Path:
    path = folder / "9_kernel_trace.csv"
    columns = "Kind Agent_Id Queue_Id Stream_Id Thread_Id Dispatch_Id Kernel_Id Kernel_Name"
    shape = "LDS_Block_Size Scratch_Size VGPR_Count Accum_VGPR_Count SGPR_Count"
    axes = " ".join(f"{size}_{axis}" for size in ("Workgroup_Size", "Grid_Size") for axis in "XYZ")
    header = f"{columns} Correlation_Id Start_Timestamp End_Timestamp {shape} {axes}".split()
    with path.open("w") as stream:
        stream.write(",".join(f'"{name}"' for name in header) + "\n")
        for n in range(size // 165):
            at = 10**12 + 4000 * n
            place = f'"KERNEL_DISPATCH","Agent 4",1,0,99,{n},14,"scale(float*)",{n + 1}'
            stream.write(f"{place},{at},{at + 900},0,0,28,4,48,256,1,1,1048576,1,1\n")
    return path


def write_rocprofv3_json(folder: Path, size: int) -> Path:
    path = folder / "9_results.json"
    agents = [{"type": 2, "id": {"handle": 4}, "name": "gfx90a", "logical_node_type_id": 0}]
    kinds = [{"kind": "NONE", "operations": []}, {"kind": "HIP_RUNTIME_API", "operations": ["x"]}]
    calls, kernels = [], []
    for n in range(size // 1330):
        at = 10**12 + 4000 * n
        shared = {"thread_id": 99, "stream_id": {"handle": 0}}
        correlation = {"internal": n + 1, "external": 0}
        times = {"start_timestamp": at, "end_timestamp": at + 900, "correlation_id": correlation}
        axes = {"workgroup_size": {"x": 256, "y": 1, "z": 1}, "grid_size": {"x": 9, "y": 1, "z": 1}}
        info = {"kernel_id": 1, "agent_id": {"handle": 4}, "queue_id": {"handle": 1}, **axes}
        info |= {"group_segment_size": 0, "private_segment_size": 0, "dispatch_id": n}
        calls.append({"size": 64, "kind": 1, "operation": 0, **times, **shared})
        kernels.append({"size": 64, "kind": 11, **times, **shared, "dispatch_info": info})
    symbols = [
        {"kernel_id": 1, "kernel_name": "_Z5scalePf", "formatted_kernel_name": "scale(float*)"}
    ]
    process = {"metadata": {"pid": 9}, "agents": agents, "kernel_symbols": symbols}
    process["strings"] = {"buffer_records": kinds}
    process["buffer_records"] = {"kernel_dispatch": kernels, "hip_api": calls}
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [process]}, indent=4))
    return path


def write_nvidia_smi(folder: Path, size: int) -> Path:
    path = folder / "gpus.csv"
    with path.open("w") as stream:
        stream.write("timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W]\n")
        for n in range(size // 53):
            moment = f"2024/01/{n // 345600 % 28 + 1:02}"
            clock = f"{n // 14400 % 24:02}:{n // 240 % 60:02}:{n // 4 % 60:02}.{n % 4 * 7 + 113:03}"
            stream.write(f"{moment} {clock}, {n % 4}, {n % 100} %, {n % 80000} MiB, 70.10 W\n")
    return path


def write_prometheus(folder: Path, size: int) -> Path:
    path = folder / "gpus.metrics"
    metrics = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED")
    with path.open("w") as stream:
        for metric in metrics:
            stream.write(f"# TYPE {metric} gauge\n")
        for n in range(size // 110):
            labels = f'gpu="{n % 8}",UUID="GPU-{n % 8}",device="nvidia{n % 8}",modelName="H100"'
            stream.write(f"{metrics[n % 3]}{{{labels}}} {n % 97}.5 {1700000000000 + n * 1000}\n")
    return path


def write_unitrace(folder: Path, size: int) -> Path:
    path = folder / "timeline.txt"
    with path.open("w") as stream:
        for n in range(size // 175):
            at = 10**12 + 4000 * n
            times = f"{at} (append) {at + 10} (submit) {at + 90} (start) {at + 900} (end)"
            shape = "[SIMD32 {64; 1; 1} {256; 1; 1}]"
            stream.write(f'Thread 5 Device 0x55d0 : "gemm{shape}" [ns] {times}\n')
    return path


def write_dmon(folder: Path, size: int) -> Path:
    path = folder / "dmon.txt"
    with path.open("w") as stream:
        stream.write("#Date       Time        gpu    pwr  gtemp     sm   fb\n")
        stream.write("#YYYYMMDD   HH:MM:SS    Idx      W      C      %   MB\n")
        for n in range(size // 55):
            clock = f"{n // 28800 % 24:02}:{n // 480 % 60:02}:{n // 8 % 60:02}"
            numbers = f"{n % 8:5} {n % 700:6} {n % 90:6} {n % 100:6} {n % 80000:6}"
            stream.write(f" 20230308   {clock}   {numbers}\n")
    return path


def write_nccl_log(folder: Path, size: int) -> Path:
    path = folder / "nccl.log"
    with path.open("w") as stream:
        for n in range(size // 85):
            head = f"node7:71:{92 + n % 8} [{n % 8}] NCCL INFO"
            ends = f"{n % 8}[{n % 8}] -> {(n + 1) % 8}[{(n + 1) % 8}]"
            stream.write(f"{head} Channel {n % 24:02}/0 : {ends} via P2P/CUMEM/read\n")
    return path


def write_collapsed(folder: Path, size: int) -> Path:
    path = folder / "stacks.folded"
    with path.open("w") as stream:
        for n in range(size // 95):
            stream.write(f"main;run;forward_{n % 40};layer_{n % 7};at::native::gemm;[libcuda.so]")
            stream.write(f";leaf_{n % 3000} {n % 90 + 1}\n")
    return path


def write_speedscope(folder: Path, size: int) -> Path:
    path = folder / "profile.speedscope.json"
    frames = [{"name": f"function_{n}", "file": "model.py", "line": n} for n in range(500)]
    samples = [[0, 1, n % 7, n % 40, n % 500] for n in range(size // 24)]
    profile = {"type": "sampled", "name": "main", "unit": "microseconds", "startValue": 0}
    profile |= {"endValue": len(samples), "samples": samples, "weights": [1] * len(samples)}
    schema = "https://www.speedscope.app/file-format-schema.json"
    document = {"$schema": schema, "shared": {"frames": frames}, "profiles": [profile]}
    path.write_text(json.dumps(document))
    return path


def write_unitrace_stalls(folder: Path, size: int) -> Path:
    path = folder / "stalls.csv"
    stalls = ("Active", "ControlStall", "PipeStall", "SendStall", "DistStall", "SbidStall")
    with path.open("w") as stream:
        stream.write("\n=== Device #0 Metrics ===\n\n")
        stream.write(f"Kernel, IP[Address], {', '.join(f'{one}[Events]' for one in stalls)}\n")
        for n in range(size // 60):
            counts = ", ".join(str(n * k % 900) for k in range(6))
            stream.write(f'"gemm_{n // 4000}", 0x{16 * (n % 4000):08x}, {counts}\n')
    return path


def write_unitrace_metrics(folder: Path, size: int) -> Path:
    path = folder / "metrics.csv"
    metrics = [f"METRIC_{n}[events]" for n in range(40)]
    with path.open("w") as stream:
        stream.write("\n=== Device #0 Metrics ===\n\n")
        stream.write("Kernel, GlobalInstanceId, SubDeviceId, GpuTime[ns], ")
        stream.write(", ".join(metrics) + "\n")
        row = ", ".join(str(100_000 + n) for n in range(40))
        for n in range(size // (len(row) + 60)):
            shape = "[SIMD32 {64; 1; 1} {256; 1; 1}]"
            stream.write(f'"gemm{shape}", {n}, 0, {n + 1000}, {row}\n')
    return path


def write_caliper(folder: Path, size: int) -> Path:
    path = folder / "profile.json"
    nodes: list[dict[str, object]] = [{"label": "main", "column": "path"}]
    nodes += [{"label": f"region_{n}", "column": "path", "parent": n // 2} for n in range(400)]
    rows = [[1000 + n, n % 400, n % 16] for n in range(size // 16)]
    told = [{"is_value": True, "attribute.unit": "usec"}, {"is_value": False}, {"is_value": True}]
    columns = ["time.duration", "path", "mpi.rank"]
    document = {"data": rows, "columns": columns, "column_metadata": told, "nodes": nodes}
    path.write_text(json.dumps(document))
    return path


def write_tritonparse(folder: Path, size: int) -> Path:
    path = folder / "log.ndjson"
    stack = [
        {"line": n, "name": "run", "filename": f"/x/file{n}.py", "loc": "f(x)"} for n in range(9)
    ]
    event = {"event_type": "launch", "pid": 9, "stack": stack, "grid": [64, 1, 1], "stream": 0}
    event |= {"name": "add_kernel", "compilation_metadata": {"hash": "a" * 64}}
    with path.open("w") as stream:
        for n in range(size // 800):
            tensor = {"type": "tensor", "shape": [98432], "dtype": "torch.float32", "data_ptr": n}
            event["extracted_args"] = {"x": tensor, "n": {"type": "int", "value": n % 9}}
            stream.write(json.dumps(event) + "\n")
    return path


def write_deepspeed(folder: Path, size: int) -> Path:
    path = folder / "flops.txt"
    with path.open("w") as stream:
        stream.write("-------------------------- DeepSpeed Flops Profiler -------------------\n")
        stream.write("fwd latency:                                            900.5 s\n")
        stream.write("----------------------------- Detailed Profile per GPU -----------------\n")
        stream.write("Model(\n  1.0 M = 100% Params, 900 s = 100% latency, 9 TFLOPS\n")
        for n in range(size // 130):
            cost = "4.72 M = 0.5% Params, 4.83 GMACs = 0.5% MACs, 1.5 ms = 0.1% latency, 6.4 TFLOPS"
            stream.write(
                f"  ({n}): Linear({cost}, in_features=768, out_features=3072, bias=True)\n"
            )
        stream.write(")\n")
    return path


def write_hpctoolkit(folder: Path, size: int) -> Path:
    path = folder / "experiment.xml"
    with path.open("w") as stream:
        stream.write(
            "<?xml version='1.0'?><!DOCTYPE HPCToolkitExperiment [<!ELEMENT M EMPTY>\n]>\n"
        )
        stream.write(
            "<HPCToolkitExperiment version='2.0'><Header n='a'/><SecCallPathProfile i='0' n='a'>"
        )
        stream.write(
            "<SecHeader><MetricTable><Metric i='0' n='CPUTIME (sec):Sum (E)'/></MetricTable>"
        )
        stream.write("<LoadModuleTable><LoadModule i='2' n='/x/app'/></LoadModuleTable>")
        stream.write("<FileTable><File i='3' n='/x/app.c'/></FileTable>")
        stream.write("<ProcedureTable><Procedure i='4' n='work'/></ProcedureTable></SecHeader>")
        stream.write("<SecCallPathProfileData>\n")
        for n in range(size // 170):
            stream.write(
                f'<PF i="{n}" s="4" l="{n % 900}" lm="2" f="3" n="4"><M n="0" v="9.1e-02"/>\n'
            )
            stream.write(f'<C i="{n}" s="5" l="{n % 900}"><M n="0" v="1.2e-03"/></C>\n')
            stream.write(f'<S i="{n}" s="5" l="{n % 900}"><M n="0" v="4.5e-03"/></S></PF>\n')
        stream.write("</SecCallPathProfileData></SecCallPathProfile></HPCToolkitExperiment>\n")
    return path


FORMATS: dict[str, tuple[str, Callable[[Path, int], Path]]] = {
    "rocprof-compute": ("rocprof_compute", write_rocprof_compute),
    "roctracer text": ("rocprof_legacy", write_rocprof_legacy),
    "rocprof CSV": ("rocprof_legacy", write_rocprof_table),
    "rocprofv3 CSV": ("rocprofv3_csv", write_rocprofv3_csv),
    "rocprofv3 JSON": ("rocprofv3_json", write_rocprofv3_json),
    "thread trace (ATT)": ("rocprof_att", write_rocprof_att),
    "Proton timeline": ("proton_trace", write_proton_trace),
    "unitrace timeline": ("unitrace_timeline", write_unitrace),
    "nvidia-smi CSV": ("nvidia_smi_csv", write_nvidia_smi),
    "Prometheus": ("prometheus", write_prometheus),
    "nvidia-smi dmon": ("smi_dmon", write_dmon),
    "NCCL log": ("nccl_log", write_nccl_log),
    "folded stacks": ("collapsed", write_collapsed),
    "speedscope": ("speedscope", write_speedscope),
    "unitrace stalls": ("unitrace_stalls", write_unitrace_stalls),
    "unitrace metrics": ("unitrace_metrics", write_unitrace_metrics),
    "Caliper JSON": ("caliper", write_caliper),
    "tritonparse": ("tritonparse", write_tritonparse),
    "DeepSpeed FLOPs": ("deepspeed_flops", write_deepspeed),
    "HPCToolkit XML": ("hpctoolkit", write_hpctoolkit),
}
