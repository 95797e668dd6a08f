"""rocprof's results.db of a trace: kernels, copies, calls and markers, where KERN is empty."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError

KERN = '"Index" INTEGER, "KernelName" TEXT, "gpu-id" INTEGER, "BeginNs" INTEGER, "EndNs" INTEGER'
CALL = (
    '"BeginNs" INTEGER, "EndNs" INTEGER, "pid" INTEGER, "tid" INTEGER, "Name" TEXT, "args" TEXT, '
)
CALL += '"Index" INTEGER, "Data" TEXT, "__section" INTEGER, "__lane" INTEGER, "DurationNs" INTEGER'
OPS = '"BeginNs" INTEGER, "EndNs" INTEGER, "dev-id" INTEGER, "queue-id" INTEGER, "Name" TEXT, '
OPS += '"pid" INTEGER, "tid" INTEGER, "roctx-range" TEXT, "stream-id" INTEGER, "Index" INTEGER'
COPY = (
    '"BeginNs" INTEGER, "EndNs" INTEGER, "Name" TEXT, "pid" INTEGER, "tid" INTEGER, "Index" INTEGER'
)
AT = 10**15


def write(path: Path, kern: list[tuple[object, ...]], **tables: list[tuple[object, ...]]) -> Path:
    db = sqlite3.connect(path)
    columns = {"KERN": KERN, "OPS": OPS, "COPY": COPY, "HIP": CALL, "HSA": CALL, "rocTX": CALL}
    for name, rows in {"KERN": kern, **tables}.items():
        db.execute(f"CREATE TABLE {name} ({columns[name]})")
        for row in rows:
            db.execute(f"INSERT INTO {name} VALUES ({','.join('?' * len(row))})", row)
    db.commit()
    db.close()
    return path


def call(start: int, end: int, name: str, number: int) -> tuple[object, ...]:
    return (AT + start, AT + end, 7, 8, name, "", number, "", 2, 8, end - start)


def op(start: int, end: int, name: str, number: int) -> tuple[object, ...]:
    return (AT + start, AT + end, 1, 0, name, 7, 8, "", 0, number)


TABLES = {
    "HIP": [call(0, 50, "hipLaunchKernel", 1), call(60, 90, "hipMemcpyAsync", 2),
            call(100, 400, "hipDeviceSynchronize", 3)],
    "HSA": [call(10, 20, "hsa_signal_create", 1)],
    "rocTX": [call(0, 95, "step", 1), call(96, 97, "here", 2)],
    "OPS": [op(100, 300, '"add(float*) [clone .kd]"', 1), op(300, 301, "<barrier packet>", 3)],
    "COPY": [],
}  # fmt: skip


def test_what_was_traced_is_read_without_kern(tmp_path: Path) -> None:
    copies = [(AT + 310, AT + 350, "CopyHostToDevice", 7, 8, 2)]
    run = sightline.open(str(write(tmp_path / "results.db", [], **{**TABLES, "COPY": copies})))
    ops = run.table("device_ops").select("kind", "name", "start_ns", "end_ns", "device_id")
    assert [row[:4] for row in ops.rows()] == [
        ("kernel", "add(float*)", AT + 100, AT + 300),
        ("memcpy", "HOST_TO_DEVICE", AT + 310, AT + 350),
    ]
    host = run.table("host_ops").select("layer", "name", "start_ns", "end_ns")
    assert set(host.rows()) == {
        ("runtime", "hipLaunchKernel", AT, AT + 50),
        ("runtime", "hipMemcpyAsync", AT + 60, AT + 90),
        ("runtime", "hipDeviceSynchronize", AT + 100, AT + 400),
        ("driver", "hsa_signal_create", AT + 10, AT + 20),
        ("annotation", "step", AT, AT + 95),
        ("annotation", "here", AT + 96, AT + 96),
    }
    names = dict(run.table("host_ops").select("host_op_id", "name").rows())
    launches = [names.get(one) for one in run.table("device_ops").get_column("launch_id")]
    assert launches == ["hipLaunchKernel", "hipMemcpyAsync"]


def test_kernels_with_counters_are_not_read_twice(tmp_path: Path) -> None:
    kern = [(0, "add(float*)", 1, AT + 100, AT + 300)]
    run = sightline.open(str(write(tmp_path / "results.db", kern, **TABLES)))
    assert run.table("device_ops").get_column("name").to_list() == ["add(float*)"]


def test_nothing_in_any_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="no complete record"):
        sightline.open(str(write(tmp_path / "results.db", [])))
