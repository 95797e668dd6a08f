"""One program as each tool would have recorded it: the same times, whatever the form.

In each round the host launches a kernel and the copy that follows it, and then does something of
its own while the GPU has nothing to do. What a form cannot hold is left out of it, not changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import synth_rocm
from support.perfetto_packets import write_trace
from support.xplane_planes import write_planes
from synth_nsys import Export

ROUNDS, ROUND_NS, BYTES = 16, 1_600_000, 4_096
PID, TID, STREAM = 4242, 4243, 7
# start, end, name, correlation
CALLS: list[tuple[int, int, str, int]] = []
KERNELS: list[tuple[int, int, str, int]] = []
COPIES: list[tuple[int, int, int]] = []
for _at in range(1_000_000, 1_000_000 + ROUNDS * ROUND_NS, ROUND_NS):
    _n = 10 + 2 * len(KERNELS)
    # Odd numbers of ns, which a form in µs would lose.
    CALLS += [
        (_at, _at + 9_001, "LaunchKernel", _n),
        (_at + 20_003, _at + 30_007, "MemcpyAsync", _n + 1),
    ]
    KERNELS.append((_at + 15_009, _at + 515_002, "scale(float*)", _n))
    COPIES.append((_at + 515_503, _at + 615_506, _n + 1))

TRUTH = {
    "window_ns": COPIES[-1][1] - KERNELS[0][0],
    "compute_ns": sum(end - start for start, end, *_ in KERNELS),
    "exposed_copy_ns": sum(end - start for start, end, _ in COPIES),
}
TRUTH["idle_ns"] = TRUTH["window_ns"] - TRUTH["compute_ns"] - TRUTH["exposed_copy_ns"]


def _microseconds(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def write_kineto(folder: Path) -> Path:
    def event(cat: str, name: str, start: int, end: int, place: Any, **args: Any) -> str:
        times = f'"ts": {_microseconds(start)}, "dur": {_microseconds(end - start)}'
        rest = {"ph": "X", "cat": cat, "name": name, "pid": place[0], "tid": place[1]}
        return f"{json.dumps({**rest, 'args': args})[:-1]}, {times}}}"

    host, gpu, on = (PID, TID), (0, STREAM), {"device": 0, "stream": STREAM}
    events = [
        *(event("cuda_runtime", f"hip{n}", s, e, host, correlation=c) for s, e, n, c in CALLS),
        *(event("kernel", n, s, e, gpu, correlation=c, **on) for s, e, n, c in KERNELS),
        *(
            event("gpu_memcpy", "CopyDeviceToHost", s, e, gpu, correlation=c, bytes=BYTES, **on)
            for s, e, c in COPIES
        ),
    ]
    path = folder / "trace.json"
    device = '"deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X"}]'
    path.write_text(f'{{"schemaVersion": 1, {device}, "traceEvents": [{", ".join(events)}]}}')
    return path


def write_nsys(folder: Path) -> Path:
    export = Export()
    export.add("TARGET_INFO_GPU", id=0, smCount=108)
    for start, end, name, number in CALLS:
        export.api(f"cuda{name}", start, end, number, PID, TID)
    for start, end, name, number in KERNELS:
        export.kernel(name, start, end, number, PID)
    for start, end, number in COPIES:
        export.copy(2, start, end, number, BYTES, 2, 1, PID)
    return export.write(folder / "run.sqlite")


def _as_rocprofv3(write: Callable[[Path], Path], path: Path) -> Path:
    gpu = synth_rocm.GPUS[0]
    shape = (1024, 1, 1), (256, 1, 1), 0, 0
    calls = [(s, e, "HIP_RUNTIME_API", f"hip{n}", c, None) for s, e, n, c in CALLS]
    # A call of HSA and a mark, before all of it: the writer makes a file of each kind.
    calls += [(10, 20, "HSA_AMD_EXT_API", "hsa_init", 1, None)]
    calls += [(30, 30, "MARKER_CORE_API", "roctxMarkA", 2, "begin")]
    program = {
        "KERNELS": {1: ("scale(float*)", "_Z5scalePf.kd", 8, 0)},
        "DISPATCHES": [(s, e, 0, 16, STREAM, 1, c, *shape) for s, e, _, c in KERNELS],
        "COPIES": [
            (s, e, "DEVICE_TO_HOST", gpu, synth_rocm.CPU, BYTES, STREAM, c) for s, e, c in COPIES
        ],
        "CALLS": calls,
        "ALLOCATIONS": [(5, "ALLOCATE", 0, 0x7F00, BYTES, 1)],
        "COUNTS": [],
    }
    kinds = ["NONE", *dict.fromkeys(c[2] for c in calls), "MEMORY_COPY"]
    kinds += ["KERNEL_DISPATCH", "MEMORY_ALLOCATION"]
    names = ["", *kinds, *dict.fromkeys(c[3] for c in calls), "MEMORY_COPY_DEVICE_TO_HOST"]
    with patch.multiple(synth_rocm, **program, _KINDS=kinds, _NAMES=names):
        return write(path)


def write_csv(folder: Path) -> Path:
    path = _as_rocprofv3(synth_rocm.write_csv, folder / "csv")
    # Counters would say that the profiler ran one kernel at a time.
    (path / f"{synth_rocm.PID}_counter_collection.csv").unlink()
    return path


def write_json(folder: Path) -> Path:
    return _as_rocprofv3(synth_rocm.write_json, folder / "results.json")


def write_rocpd(folder: Path) -> Path:
    return _as_rocprofv3(synth_rocm.write_rocpd, folder / "results.db")


def write_pftrace(folder: Path) -> Path:
    """As rocprofv3 writes it: slices of the categories hip_api, kernel_dispatch, memory_copy."""
    thread = {"uuid": 7, "thread": {"pid": PID, "tid": TID}}
    tracks = [{"track_descriptor": thread}, {"track_descriptor": {"uuid": 9, "name": "QUEUE [0]"}}]
    packets: list[dict[str, Any]] = []

    def slice_(start: int, end: int, track: int, name: str, category: str, number: int) -> None:
        notes = [{"name": "corr_id", "int_value": number}]
        if track == 9:
            notes += [{"name": "agent", "string_value": "Agent 4"}]
            notes += [{"name": "queue", "int_value": STREAM}]
        event = {"type": 1, "track_uuid": track, "name": name, "categories": [category],
                 "flow_ids": [number], "debug_annotations": notes}  # fmt: skip
        packets.append({"timestamp": start, "track_event": event})
        packets.append({"timestamp": end, "track_event": {"type": 2, "track_uuid": track}})

    for start, end, name, number in CALLS:
        slice_(start, end, 7, f"hip{name}", "hip_api", number)
    for start, end, name, number in KERNELS:
        slice_(start, end, 9, name, "kernel_dispatch", number)
    for start, end, number in COPIES:
        slice_(start, end, 9, "MEMORY_COPY_DEVICE_TO_HOST", "memory_copy", number)
    path = folder / "run.pftrace"
    ordered = sorted(packets, key=lambda p: p["timestamp"])
    path.write_bytes(write_trace(*tracks, *ordered))
    return path


def write_xplane(folder: Path) -> Path:
    calls = [(s, e, f"hip{n}", c, None) for s, e, n, c in CALLS]
    work: list[tuple[int, int, str, int, str | None]] = [(*k, None) for k in KERNELS]
    sizes = f"kind:D2H size:{BYTES} dest:0 async:1"
    work += [(s, e, "MemcpyD2H", c, sizes) for s, e, c in COPIES]
    path = folder / "run.xplane.pb"
    path.write_bytes(write_planes(calls, work, tid=TID, stream=STREAM))
    return path


def write_unitrace(folder: Path) -> Path:
    """Lines of the device's timeline: of the host's calls, when each handed its work over."""
    handed = {number: start for start, _, _, number in CALLS}
    work = [(s, e, '"scale[SIMD32 {4; 1; 1} {256; 1; 1}]"', c) for s, e, _, c in KERNELS]
    work += [(s, e, f'"zeCommandListAppendMemoryCopy(D2M)[{BYTES}]"', c) for s, e, c in COPIES]
    path = folder / "timeline.txt"
    path.write_text(
        "".join(
            f"Thread {TID} Device 1 : {name} [ns] {handed[c]} (append) {handed[c]} (submit) "
            f"{start} (start) {end} (end)\n"
            for start, end, name, c in sorted(work)
        )
    )
    return path


def write_roctracer(folder: Path) -> Path:
    lines = [f"{s}:{e} {PID}:{TID} hip{n}(a=1) :{c}" for s, e, n, c in CALLS]
    lines += [f"{s}:{e} 0:{STREAM} {n}:{c}:{PID}" for s, e, n, c in KERNELS]
    lines += [f"{s}:{e} 0:{STREAM} CopyDeviceToHost:{c}:{PID}" for s, e, c in COPIES]
    # Times of a machine that has run for a while: roctracer's have no fewer digits.
    path = folder / "results.txt"
    shifted = [_shift(line, 10**12) for line in lines]
    path.write_text("\n".join(shifted) + "\n")
    return path


def _shift(line: str, by: int) -> str:
    start, _, rest = line.partition(":")
    end, _, rest = rest.partition(" ")
    return f"{int(start) + by}:{int(end) + by} {rest}"


WRITERS: dict[str, Callable[[Path], Path]] = {
    "Kineto": write_kineto,
    "Nsight Systems (SQLite)": write_nsys,
    "rocprofv3 (CSV)": write_csv,
    "rocprofv3 (JSON)": write_json,
    "rocpd": write_rocpd,
    "Perfetto (rocprofv3)": write_pftrace,
    "XPlane": write_xplane,
    "unitrace": write_unitrace,
    "roctracer": write_roctracer,
}
