"""One small program as each of the forms in which AMD's tools record it.

Written from rocprofiler-sdk's documentation and the tables of its rocpd schemas, versions 3 and 4,
not from the readers: agents are numbered as the machine numbers them (a CPU first), grids are in
work-items, and ids are the files' own, not the system's.
"""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path
from typing import Any

PID, TID = 4242, 4243
GUID = "_0000abcd_0000_7000_8000_000000000001"
CPU, GPUS = 0, (2, 3)  # agents; between them stands a second CPU
HANDLE = 7000  # of an agent in JSON: its node's number and this
KERNELS = {
    11: ("gemm(float*)", "_Z4gemmPf.kd", 96, 32),
    12: ("scale(float*)", "_Z5scalePf.kd", 8, 0),
}
# start, end, GPU, queue, stream, kernel, correlation, work-items, workgroup, LDS, scratch
DISPATCHES = [
    (2_000, 5_000, 1, 16, 5, 11, 3, (1024, 6, 1), (256, 4, 1), 4096, 0),
    (5_100, 5_900, 1, 16, 5, 12, 4, (1000, 1, 1), (256, 1, 1), 0, 16),
]
# start, end, direction, source, target, bytes, stream, correlation
COPIES = [
    (1_200, 1_900, "HOST_TO_DEVICE", CPU, GPUS[1], 4096, 5, 2),
    (6_000, 6_500, "DEVICE_TO_DEVICE", GPUS[1], GPUS[0], 512, 5, 6),
]
# start, end, kind, name, correlation; of a marker what the program wrote
CALLS = [
    (500, 900, "HIP_RUNTIME_API", "hipMalloc", 1, None),
    (1_000, 7_000, "MARKER_CORE_API", "roctxRangePushA", 9, "step 1"),
    (1_100, 1_300, "HIP_RUNTIME_API", "hipMemcpyAsync", 2, None),
    (1_150, 1_250, "HSA_AMD_EXT_API", "hsa_amd_memory_async_copy", 8, None),
    (1_400, 1_500, "HIP_RUNTIME_API", "hipLaunchKernel", 3, None),
    (1_600, 1_700, "HIP_RUNTIME_API", "hipLaunchKernel", 4, None),
    (5_950, 5_990, "HIP_RUNTIME_API", "hipMemcpyPeerAsync", 6, None),
    (6_700, 6_700, "MARKER_CORE_API", "roctxMarkA", 10, "halfway"),
    (7_100, 7_200, "HIP_RUNTIME_API", "hipFree", 7, None),
]
# time, operation, GPU, address, bytes, correlation; a free names neither GPU nor size
ALLOCATIONS = [(800, "ALLOCATE", 1, 0x7F00, 4096, 1), (7_150, "FREE", None, 0x7F00, 0, 7)]
COUNTS = [("SQ_WAVES", 1, 100.0), ("SQ_WAVES", 1, 28.0)]  # of the first kernel, two instances
_GPU = {
    "cu_count": 304,
    "max_engine_clk_fcompute": 2100,
    "max_waves_per_cu": 32,
    "wave_front_size": 64,
    "lds_size_in_kb": 64,
    "vendor_name": "AMD",
    "product_name": "AMD Instinct MI300X",
    "name": "gfx942",
}
_KINDS = ["NONE", *dict.fromkeys(kind for _, _, kind, *_ in CALLS), "MEMORY_COPY"]
_KINDS += ["KERNEL_DISPATCH", "MEMORY_ALLOCATION"]
_NAMES = [
    "",
    *_KINDS,
    *dict.fromkeys(c[3] for c in CALLS),
    *(f"MEMORY_COPY_{c[2]}" for c in COPIES),
]


def write_json(path: Path) -> Path:
    """The program as rocprofv3 --output-format json."""
    operations: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for _, _, kind, name, *_ in CALLS:
        if name not in operations[kind]:
            operations[kind].append(name)
    operations["MEMORY_COPY"] = [f"MEMORY_COPY_{c[2]}" for c in COPIES]
    operations["MEMORY_ALLOCATION"] = [f"MEMORY_ALLOCATION_{a[1]}" for a in ALLOCATIONS]

    def record(kind: str, operation: str, start: int, end: int, correlation: int) -> dict[str, Any]:
        listed = operations[kind]
        return {
            "kind": _KINDS.index(kind),
            "operation": listed.index(operation) if operation in listed else 2,
            "thread_id": TID,
            "correlation_id": {"internal": correlation, "external": 0},
            "start_timestamp": start,
            "end_timestamp": end,
        }

    def info(dispatch: tuple[Any, ...]) -> dict[str, Any]:
        _, _, gpu, queue, _, kernel, correlation, grid, group, lds, scratch = dispatch
        return {
            "agent_id": {"handle": HANDLE + GPUS[gpu]},
            "queue_id": {"handle": queue},
            "kernel_id": kernel,
            "dispatch_id": correlation,
            "group_segment_size": lds,
            "private_segment_size": scratch,
            "workgroup_size": dict(zip("xyz", group, strict=True)),
            "grid_size": dict(zip("xyz", grid, strict=True)),
        }

    calls = [(record(k, n, s, e, c), k) for s, e, k, n, c, _ in CALLS]
    first = DISPATCHES[0]
    process = {
        "metadata": {"pid": PID, "node": {"hostname": "secret-host"}},
        "agents": [
            {"id": {"handle": HANDLE + node}, "type": 1, "logical_node_type_id": node}
            for node in (CPU, 1)
        ]
        + [
            {"id": {"handle": HANDLE + node}, "type": 2, "logical_node_type_id": i, **_GPU}
            for i, node in enumerate(GPUS)
        ],
        "counters": [{"id": {"handle": 5}, "name": "SQ_WAVES"}],
        "strings": {
            "buffer_records": [{"kind": k, "operations": operations[k]} for k in _KINDS],
            "marker_api": [{"key": c[4], "value": c[5]} for c in CALLS if c[5]],
        },
        "kernel_symbols": [
            {
                "kernel_id": number,
                "formatted_kernel_name": name,
                "kernel_name": mangled,
                "arch_vgpr_count": vgprs,
                "accum_vgpr_count": accumulation,
            }
            for number, (name, mangled, vgprs, accumulation) in KERNELS.items()
        ],
        "callback_records": {
            "counter_collection": [
                {
                    "dispatch_data": {
                        "dispatch_info": info(first),
                        "start_timestamp": first[0],
                        "end_timestamp": first[1],
                    },
                    "records": [
                        {"counter_id": {"handle": 5}, "value": value} for _, _, value in COUNTS
                    ],
                }
            ]
        },
        "buffer_records": {
            "kernel_dispatch": [
                record("KERNEL_DISPATCH", "", d[0], d[1], d[6])
                | {"dispatch_info": info(d), "stream_id": {"handle": d[4]}}
                for d in DISPATCHES
            ],
            "memory_copy": [
                record("MEMORY_COPY", f"MEMORY_COPY_{way}", start, end, correlation)
                | {
                    "src_agent_id": {"handle": HANDLE + source},
                    "dst_agent_id": {"handle": HANDLE + target},
                    "bytes": size,
                    "stream_id": {"handle": stream},
                }
                for start, end, way, source, target, size, stream, correlation in COPIES
            ],
            "hip_api": [r for r, kind in calls if kind.startswith("HIP")],
            "hsa_api": [r for r, kind in calls if kind.startswith("HSA")],
            "marker_api": [r for r, kind in calls if kind.startswith("MARKER")],
            "memory_allocation": [
                record("MEMORY_ALLOCATION", f"MEMORY_ALLOCATION_{what}", at, at, correlation)
                | {
                    "agent_id": {"handle": 0 if gpu is None else HANDLE + GPUS[gpu]},
                    "address": hex(address),
                    "allocation_size": size,
                }
                for at, what, gpu, address, size, correlation in ALLOCATIONS
            ],
        },
    }
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [process]}))
    return path


def write_csv(folder: Path) -> Path:
    """The program as rocprofv3 --output-format csv."""
    folder.mkdir()

    def write(name: str, rows: list[dict[str, Any]]) -> None:
        with (folder / f"{PID}_{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), quoting=csv.QUOTE_NONNUMERIC)
            writer.writeheader()
            writer.writerows(rows)

    timed = ("Start_Timestamp", "End_Timestamp")
    nodes = [(CPU, "CPU"), (1, "CPU"), *((node, "GPU") for node in GPUS)]
    write(
        "agent_info",
        [
            {"Node_Id": node, "Agent_Type": kind} | {k.title(): v for k, v in _GPU.items()}
            for node, kind in nodes
        ],
    )
    write(
        "kernel_trace",
        [
            {"Kind": "KERNEL_DISPATCH", "Agent_Id": f"Agent {GPUS[gpu]}", "Queue_Id": queue}
            | {"Stream_Id": stream, "Thread_Id": TID, "Kernel_Name": KERNELS[kernel][0]}
            | {"Correlation_Id": correlation, **dict(zip(timed, (start, end), strict=True))}
            | {"LDS_Block_Size": lds, "Scratch_Size": scratch}
            | {"VGPR_Count": KERNELS[kernel][2], "Accum_VGPR_Count": KERNELS[kernel][3]}
            | {f"Workgroup_Size_{a}": n for a, n in zip("XYZ", group, strict=True)}
            | {f"Grid_Size_{a}": n for a, n in zip("XYZ", grid, strict=True)}
            for start, end, gpu, queue, stream, kernel, correlation, grid, group, lds, scratch
            in DISPATCHES
        ],
    )  # fmt: skip
    write(
        "memory_copy_trace",
        [
            {"Kind": "MEMORY_COPY", "Direction": f"MEMORY_COPY_{way}", "Stream_Id": stream}
            | {"Source_Agent_Id": f"Agent {source}", "Destination_Agent_Id": f"Agent {target}"}
            | {"Correlation_Id": correlation, **dict(zip(timed, (start, end), strict=True))}
            for start, end, way, source, target, _, stream, correlation in COPIES
        ],
    )
    for file in ("hip_api", "hsa_api", "marker_api"):
        write(
            f"{file}_trace",
            [
                {"Domain": kind, "Function": message or name, "Process_Id": PID, "Thread_Id": TID}
                | {"Correlation_Id": correlation, **dict(zip(timed, (start, end), strict=True))}
                for start, end, kind, name, correlation, message in CALLS
                if kind.startswith(file.split("_")[0].upper())
            ],
        )
    write(
        "memory_allocation_trace",
        [
            {"Kind": "MEMORY_ALLOCATION", "Operation": f"MEMORY_ALLOCATION_{what}"}
            | {"Agent_Id": "" if gpu is None else f"Agent {GPUS[gpu]}", "Allocation_Size": size}
            | {"Address": f"0x{address:016x}", "Correlation_Id": correlation}
            | dict(zip(timed, (at, at), strict=True))
            for at, what, gpu, address, size, correlation in ALLOCATIONS
        ],
    )
    start, end, gpu, queue, _, kernel, correlation, *_ = DISPATCHES[0]
    write(
        "counter_collection",
        [
            {"Correlation_Id": correlation, "Dispatch_Id": 1, "Agent_Id": f"Agent {GPUS[gpu]}"}
            | {"Queue_Id": queue, "Process_Id": PID, "Kernel_Name": KERNELS[kernel][0]}
            | {"Counter_Name": "SQ_WAVES", "Counter_Value": sum(v for *_, v in COUNTS)}
            | dict(zip(timed, (start, end), strict=True))
        ],
    )
    return folder


_SHARED_TABLES = {
    "metadata": "id INTEGER PRIMARY KEY, tag TEXT, value TEXT",
    "string": "id INTEGER PRIMARY KEY, guid TEXT, string TEXT",
    "info_node": "id INTEGER PRIMARY KEY, guid TEXT, hostname TEXT",
    "info_process": "id INTEGER PRIMARY KEY, guid TEXT, pid INTEGER, environment JSONB",
    "info_thread": "id INTEGER PRIMARY KEY, guid TEXT, pid INTEGER, tid INTEGER, name TEXT",
    "info_agent": "id INTEGER PRIMARY KEY, guid TEXT, type TEXT, absolute_index INTEGER, "
    "type_index INTEGER, name TEXT, vendor_name TEXT, product_name TEXT, extdata JSONB",
    "info_pmc": "id INTEGER PRIMARY KEY, guid TEXT, name TEXT",
    "info_kernel_symbol": "id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT, "
    "display_name TEXT, arch_vgpr_count INTEGER, accum_vgpr_count INTEGER",
    "event": "id INTEGER PRIMARY KEY, guid TEXT, category_id INTEGER, stack_id INTEGER, "
    "extdata JSONB",
    "pmc_event": "id INTEGER PRIMARY KEY, guid TEXT, event_id INTEGER, pmc_id INTEGER, value REAL",
    "track": "id INTEGER PRIMARY KEY, guid TEXT, pid INTEGER, tid INTEGER, agent_id INTEGER, "
    "queue_id INTEGER, stream_id INTEGER, name_id INTEGER",
}
_SHAPE = ", ".join(f"{n}_size_{a} INTEGER" for n in ("workgroup", "grid") for a in "xyz")
_DISPATCHED = (
    f"kernel_id INTEGER, private_segment_size INTEGER, group_segment_size INTEGER, {_SHAPE}"
)
_COPIED = "name_id INTEGER, dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER"
_ALLOCATED = "type TEXT, level TEXT, address INTEGER, size INTEGER"
_PLACED = {
    3: "pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, stream_id INTEGER, "
    "start BIGINT, end BIGINT, event_id INTEGER",
    4: "track_id INTEGER, start_id INTEGER, end_id INTEGER, event_id INTEGER",
}


def write_rocpd(path: Path, version: int = 3, guid: str = GUID, pid: int = PID) -> Path:
    """The program as a rocpd database of this schema; a process more where the file is there."""
    db = sqlite3.connect(path)
    tables = _SHARED_TABLES | {
        "kernel_dispatch": f"id INTEGER PRIMARY KEY, guid TEXT, {_PLACED[version]}, {_DISPATCHED}",
        "memory_copy": f"id INTEGER PRIMARY KEY, guid TEXT, {_PLACED[version]}, {_COPIED}",
        "memory_allocate": f"id INTEGER PRIMARY KEY, guid TEXT, {_PLACED[version]}, {_ALLOCATED}",
        "region": f"id INTEGER PRIMARY KEY, guid TEXT, {_PLACED[version]}, name_id INTEGER",
        "sample": "id INTEGER PRIMARY KEY, guid TEXT, track_id INTEGER, timestamp BIGINT, "
        "timestamp_id INTEGER, event_id INTEGER",
    }
    if version == 4:
        tables["timestamp"] = "id INTEGER PRIMARY KEY, guid TEXT, value BIGINT, track_id INTEGER"
    for table, columns in tables.items():
        db.execute(f'CREATE TABLE "rocpd_{table}{guid}" ({columns})')

    def add(table: str, **values: Any) -> int:
        names, marks = ", ".join(values), ", ".join("?" for _ in values)
        made = db.execute(
            f'INSERT INTO "rocpd_{table}{guid}" ({names}) VALUES ({marks})',
            list(values.values()),
        )
        return int(made.lastrowid or 0)

    texts = {text: add("string", string=text) for text in _NAMES}
    process = add("info_process", id=1, pid=pid, environment='{"TOKEN": "hunter2"}')
    thread = add("info_thread", id=1, pid=process, tid=TID, name="main")
    add("info_node", hostname="secret-host")
    for node in (CPU, 1):
        add("info_agent", id=node, type="CPU", absolute_index=node, type_index=node)
    for i, node in enumerate(GPUS):
        said = {k: _GPU[k] for k in ("name", "vendor_name", "product_name")}
        more = json.dumps({k: v for k, v in _GPU.items() if k not in said})
        add(
            "info_agent",
            id=node,
            type="GPU",
            absolute_index=node,
            type_index=i,
            extdata=more,
            **said,
        )
    for number, (name, mangled, vgprs, accumulation) in KERNELS.items():
        counts = {"arch_vgpr_count": vgprs, "accum_vgpr_count": accumulation}
        add("info_kernel_symbol", id=number, kernel_name=mangled, display_name=name, **counts)
    add("info_pmc", id=5, name="SQ_WAVES")

    def event(kind: str, correlation: int, message: str | None = None) -> int:
        said = json.dumps({"message": message} if message else {})
        return add("event", category_id=texts[kind], stack_id=correlation, extdata=said)

    def placed(
        times: tuple[int, int],
        agent: int | None = None,
        queue: int | None = None,
        stream: int | None = None,
    ) -> dict[str, Any]:
        where = {"pid": process, "tid": thread, "agent_id": agent}
        where |= {"queue_id": queue, "stream_id": stream}
        if version == 3:
            return where | {"start": times[0], "end": times[1]}
        track = add("track", **where)
        ids = [add("timestamp", value=time, track_id=track) for time in times]
        return {"track_id": track, "start_id": ids[0], "end_id": ids[1]}

    for (
        start,
        end,
        gpu,
        queue,
        stream,
        kernel,
        correlation,
        grid,
        group,
        lds,
        scratch,
    ) in DISPATCHES:
        known = event("KERNEL_DISPATCH", correlation)
        shape = {f"workgroup_size_{a}": n for a, n in zip("xyz", group, strict=True)}
        shape |= {f"grid_size_{a}": n for a, n in zip("xyz", grid, strict=True)}
        add(
            "kernel_dispatch",
            **placed((start, end), GPUS[gpu], queue, stream),
            **shape,
            kernel_id=kernel,
            group_segment_size=lds,
            private_segment_size=scratch,
            event_id=known,
        )
        if correlation == DISPATCHES[0][6]:
            for _, _, value in COUNTS:
                add("pmc_event", event_id=known, pmc_id=5, value=value)
    for start, end, way, source, target, size, stream, correlation in COPIES:
        add(
            "memory_copy",
            **placed((start, end), None, None, stream),
            name_id=texts[f"MEMORY_COPY_{way}"],
            src_agent_id=source,
            dst_agent_id=target,
            size=size,
            event_id=event("MEMORY_COPY", correlation),
        )
    for start, end, kind, name, correlation, message in CALLS:
        known = event(kind, correlation, message)
        if start == end:
            track = add("track", pid=process, tid=thread, name_id=texts[kind])
            time = (
                {"timestamp": start}
                if version == 3
                else {"timestamp_id": add("timestamp", value=start, track_id=track)}
            )
            add("sample", track_id=track, event_id=known, **time)
        else:
            add("region", **placed((start, end)), name_id=texts[name], event_id=known)
    for at, what, gpu, address, size, correlation in ALLOCATIONS:
        add(
            "memory_allocate",
            **placed((at, at), None if gpu is None else GPUS[gpu]),
            type=what.replace("ALLOCATE", "ALLOC"),
            level="REAL",
            address=address,
            size=size,
            event_id=event("MEMORY_ALLOCATION", correlation),
        )
    db.commit()
    db.close()
    return path
