"""Sums of device work by what the file itself calls it equal ours: the second way for each class.

Read anew with the standard library alone. TPUs' `hlo_category` is compared in
tests/formats/test_xplane_operations.py, where the messages of that format are declared.
"""

from __future__ import annotations

import csv
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

import sightline
from sightline.errors import SightlineError
from support import sweep
from support.campaigns import sample
from support.corpus import list_recordings, name_recording
from support.differences import compare_figures
from support.xplane_planes import MESSAGES

pytestmark = pytest.mark.corpus
Sums = dict[str, tuple[int, int]]  # of each category how many operations, and their time, ns


def add_up(operations: list[tuple[str, int]]) -> Sums:
    found: dict[str, list[int]] = defaultdict(list)
    for category, ns in operations:
        found[category].append(ns)
    return {name: (len(lengths), sum(lengths)) for name, lengths in sorted(found.items())}


# Kineto's `cat` of today and of 2021, and of MTIA, by what it means here.
KINETO = {
    "kernel": "kernel", "concurrent_kernel": "kernel", "mtia_ccp_events": "kernel",
    "gpu_memcpy": "memcpy", "memcpy": "memcpy", "gpu_memset": "memset", "memset": "memset",
}  # fmt: skip


def read_kineto(path: Path) -> Sums:
    operations = []
    for event in sweep.events_of(sweep.parse(path)):
        kind = KINETO.get(str(event.get("cat", "")).lower())
        if kind and event.get("ph") == "X":
            start = sweep.ns(event["ts"])
            operations.append((kind, start + sweep.ns(event.get("dur", 0)) - start))
    return add_up([(kind, ns) for kind, ns in operations if ns >= 0])


# CUPTI's CUpti_ActivityMemcpyKind (cupti_activity.h), as exports have it.
COPIES = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
          9: "HtoH", 10: "PtoP"}  # fmt: skip


def read_nsys(path: Path) -> Sums:
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    operations: list[tuple[str, int]] = []
    for table, kind in (("KERNEL", "kernel"), ("MEMSET", "memset"), ("GRAPH_TRACE", "graph")):
        if f"CUPTI_ACTIVITY_KIND_{table}" in tables:
            rows = db.execute(f'SELECT "end" - start FROM CUPTI_ACTIVITY_KIND_{table}')
            operations += [(kind, ns) for (ns,) in rows]
    if "CUPTI_ACTIVITY_KIND_MEMCPY" in tables:
        rows = db.execute('SELECT copyKind, "end" - start FROM CUPTI_ACTIVITY_KIND_MEMCPY')
        operations += [(f"memcpy {COPIES.get(kind)}", ns) for kind, ns in rows]
    db.close()
    return add_up(operations)


def read_rocpd(path: Path) -> Sums:
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    operations: list[tuple[str, int]] = []
    for start, kind in (("rocpd_kernel_dispatch", "kernel"), ("rocpd_memory_copy", "memcpy")):
        for table in (name for name in names if name.startswith(start)):
            rows = db.execute(f'SELECT "end" - start FROM "{table}"')
            operations += [(kind, ns) for (ns,) in rows]
    db.close()
    return add_up(operations)


def read_rocprofv3(path: Path) -> Sums:
    with path.open(encoding="utf-8", newline="") as lines:
        return add_up([
            ("kernel", int(row["End_Timestamp"]) - int(row["Start_Timestamp"]))
            for row in csv.DictReader(lines) if row["Kind"] == "KERNEL_DISPATCH"
        ])  # fmt: skip


# What asks Level Zero and OpenCL for work that is no kernel, which unitrace names it by. What only
# waits is no operation here: the device is idle, or what it waits for works.
UNITRACE = (
    (
        "memcpy",
        r"zeCommandListAppend(?:Memory|Image)Copy|clEnqueue(?:Write|Read|Copy|Map|Unmap|SVMMem)",
    ),
    ("memset", r"zeCommandListAppendMemoryFill|clEnqueue(?:Fill|SVMMemFill)"),
    ("wait", r"zeCommandListAppend(?:Barrier|EventReset|SignalEvent|WaitOnEvents|WriteGlobal)"),
    ("kernel", r""),
)


def read_unitrace(path: Path) -> Sums:
    line = re.compile(r'^Thread \d+ Device \S+ : "?(.+?)"? \[ns\] .* (\d+) \(start\) (\d+) \(end\)')
    found = [m for text in path.read_text(errors="replace").splitlines() if (m := line.match(text))]
    kinds = [next(kind for kind, named in UNITRACE if re.match(named, m[1])) for m in found]
    lengths = [int(m[3]) - int(m[2]) for m in found]
    return add_up([one for one in zip(kinds, lengths, strict=True) if one[0] != "wait"])


def read_rocprof(path: Path) -> Sums:
    """KERN has kernels, OPS those of HIP where it is empty, and COPY what the engines copied."""
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    operations = []
    for table, kind in (("KERN", "kernel"), ("OPS", "kernel"), ("COPY", "memcpy")):
        if table in tables and not (table == "OPS" and operations):
            rows = db.execute(f"SELECT EndNs - BeginNs FROM {table}")
            operations += [(kind, ns) for (ns,) in rows]
    db.close()
    return add_up(operations)


def read_xplane(path: Path) -> Sums:
    """Of GPUs: what an event on a stream has details of."""
    operations = []
    for plane in MESSAGES["XSpace"].FromString(path.read_bytes()).planes:
        named = {entry.key: entry.value.name for entry in plane.stat_metadata}
        if not plane.name.startswith("/device:GPU"):
            continue
        for line in (line for line in plane.lines if line.name.startswith("Stream #")):
            for event in line.events:
                details = {named.get(stat.metadata_id) for stat in event.stats}
                kind = next(
                    (k for k in ("memcpy", "memset") if f"{k}_details" in details), "kernel"
                )
                start = line.timestamp_ns * 1000 + event.offset_ps
                operations.append((kind, (start + event.duration_ps) // 1000 - start // 1000))
    return add_up(operations)


def read_ours(path: Path, *, with_direction: bool) -> Sums:
    try:
        ops = sightline.open(str(path)).table("device_ops")
    except SightlineError:
        return {}
    rows = ops.select("kind", "copy_kind", ops["end_ns"] - ops["start_ns"]).rows()
    return add_up([
        (f"memcpy {copy}" if with_direction and kind == "memcpy" else kind, ns)
        for kind, copy, ns in rows
    ])  # fmt: skip


WAYS: tuple[tuple[str, Callable[[Path], Sums]], ...] = (
    ("kineto/**/*.json*", read_kineto),
    ("nsys/**/*.sqlite", read_nsys),
    ("rocpd/**/*.db", read_rocpd),
    ("rocprofv3/**/*kernel_trace.csv", read_rocprofv3),
    ("intel_unitrace/**/t.txt", read_unitrace),
    ("rocprof_legacy/**/results.db", read_rocprof),
    ("xplane/AMD-AGI__TraceLens/**/*.xplane.pb", read_xplane),
)
CASES = [(path, read) for pattern, read in WAYS for path in sample(list_recordings(pattern), 4)]


@pytest.mark.parametrize(
    ("path", "read"), CASES, ids=lambda v: name_recording(v) if isinstance(v, Path) else ""
)
def test_sums_by_the_files_own_category(path: Path, read: Callable[[Path], Sums]) -> None:
    try:
        theirs = read(path)
    except (KeyError, TypeError, AttributeError):
        pytest.skip("it is not a trace")
    ours = read_ours(path, with_direction=read is read_nsys)
    compare_figures(path, "count and time by category", ours, theirs)
