"""How fast the smaller formats of other vendors and tools are read, beside reading their bytes.

    python benchmarks/format_speed.py [--megabytes 20] [--runs 5] [FORMAT...]

Writes a recording of each format of about this size, and reads it RUNS times: into tables in
memory, in turn with the floor, which reads the same bytes and drops them. Prints MB/s of processor
time (medians) and the ratio of the two.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sightline.model.declare import ImportOptions
from sightline.model.source import Source

MB = 1_000_000


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
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("formats", nargs="*", help="only these")
    chosen = parser.parse_args()
    print("| format | MB | MB/s | floor, MB/s | times the floor |")
    print("|---|---:|---:|---:|---:|")
    for name, (module, write) in FORMATS.items():
        if chosen.formats and name not in chosen.formats:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = write(Path(folder), chosen.megabytes * MB)
            files = [path] if path.is_file() else sorted(path.iterdir())
            size = sum(f.stat().st_size for f in files)
            importer = importlib.import_module(f"sightline.importers.{module}")

            def read(path: Path = path, importer: object = importer) -> None:
                importer.read(Source(path, path.name), ImportOptions())  # type: ignore[attr-defined]

            def touch(files: list[Path] = files) -> None:
                for file in files:
                    file.read_bytes()

            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(chosen.runs + 1):
                for step, taken in zip((read, touch), times, strict=True):
                    taken.append(measure(step))
            ours, floor = (statistics.median(taken[1:]) for taken in times)
            rates = f"{size / MB / ours:,.0f} | {size / MB / max(floor, 1e-4):,.0f}"
            print(f"| {name} | {size / MB:.0f} | {rates} | {ours / max(floor, 1e-4):,.0f} |")
    return 0


def measure(step: Callable[[], None]) -> float:
    """Processor time of one call, in s: the machine may be busy with other things."""
    start = time.process_time()
    step()
    return time.process_time() - start


if __name__ == "__main__":
    sys.exit(main())
