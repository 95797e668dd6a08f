"""rocprof's results.json: as rocprof's own scripts write it, and equal to its table of kernels."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.formats.amd import rocprof_legacy
from support.damage import survive_damage


def label(process: int, name: str) -> str:
    return f',{{"args":{{"name":"{name}"}},"ph":"M","pid":{process},"name":"process_name"}}\n'


def event(process: int, lane: int, begin: int, end: int, **arguments: object) -> str:
    """An event as sqlitedb.py's dump_json writes one: all values are texts, `dur` at least 1 µs."""
    named = {"BeginNs": begin, "EndNs": end, **arguments}
    pairs = ",\n    ".join(f'"{key}":"{value}"' for key, value in named.items())
    name = arguments.get("Name", arguments.get("KernelName"))
    duration = max((end - begin) // 1000, 1)
    return (
        f',{{"ph":"X","name":"{name}","pid":{process},"tid":{lane},"ts":"{begin // 1000}",'
        f'"dur":"{duration}",\n  "args":{{\n    {pairs}\n  }}\n}}\n'
    )


def arrow(number: int, source: tuple[int, int, int], target: tuple[int, int, int]) -> str:
    ends = (("s", *source), ("t", *target))
    return "".join(
        f',{{"ts":{ts},"ph":"{phase}","cat":"DataFlow","id":{number},"pid":{process},"tid":{lane},'
        '"name":"dep"}\n'
        for phase, process, lane, ts in ends
    )


def write(path: Path, events: Iterable[str]) -> Path:
    labels = label(2, "CPU HIP API") + label(1, "COPY") + label(6, "GPU0")
    end = '],\n"otherData": {\n    "HOST": "secret"\n  }\n}'
    path.write_text('{ "traceEvents":[{}\n' + labels + "".join(events) + end)
    return path


def read(path: Path) -> Imported:
    imported: Imported = rocprof_legacy.read(Source(path, path.name), ImportOptions())
    return imported


HIP = {"pid": 9, "tid": 11}
WORK = {"dev-id": 0, "queue-id": 0, "pid": 9, "tid": 11, "stream-id": 1, "Data": ""}
EVENTS = (
    event(0, 11, 1_000_100, 1_090_000, Name="step 1", **HIP),
    event(2, 11, 1_001_000, 1_006_250, Name="hipLaunchKernel", args="( stream(1))", **HIP),
    event(2, 11, 1_010_500, 1_080_000, Name="hipMemcpy", args='( kind(2) "x" )'[:10], **HIP),
    event(3, 11, 1_002_000, 1_003_000, Name="hsa_signal_create", args="()", **HIP),
    event(6, 1, 1_009_123, 1_029_999, Name="add(int*, int)", **WORK),
    event(1, 1, 1_030_000, 1_031_000, Name="CopyDeviceToHost", **WORK),
    event(518, 1, 1_009_123, 1_029_999, Name="<barrier packet>", **WORK),
    # From the middle of a call to the beginning of its work (tblextr.py).
    arrow(0, (2, 11, 1_003), (6, 1, 1_009)),
    arrow(1, (2, 11, 1_030), (1, 1, 1_030)),
)


def test_what_becomes_what(tmp_path: Path) -> None:
    run = sightline.open(str(write(tmp_path / "results.json", EVENTS)))
    ops, calls = run.table("device_ops"), run.table("host_ops")
    columns = ("kind", "name", "start_ns", "end_ns", "stream_id", "copy_kind")
    assert ops.select(columns).rows() == [
        ("kernel", "add(int*, int)", 1_009_123, 1_029_999, 1, None),
        ("memcpy", "DEVICE_TO_HOST", 1_030_000, 1_031_000, 1, "DtoH"),
    ]
    assert calls.select("layer", "name", "start_ns", "end_ns").rows() == [
        ("annotation", "step 1", 1_000_100, 1_090_000),
        ("runtime", "hipLaunchKernel", 1_001_000, 1_006_250),
        ("driver", "hsa_signal_create", 1_002_000, 1_003_000),
        ("runtime", "hipMemcpy", 1_010_500, 1_080_000),
    ]
    names = ops.join(calls.select(launch_id="host_op_id", call="name"), on="launch_id", how="left")
    assert names.get_column("call").to_list() == ["hipLaunchKernel", "hipMemcpy"]


def test_rocprof_1_repeats_the_traces_process(tmp_path: Path) -> None:
    """The real one is with the work alone; calls are of it, and so launch it."""
    work = {"dev-id": 0, "queue-id": 0, "tid": 1, "proc-id": 9, "Data": ""}
    run = sightline.open(
        str(
            write(
                tmp_path / "results.json",
                [
                    event(2, 11, 1_001_000, 1_006_250, Name="hipLaunchKernel", pid=2, tid=11),
                    event(6, 1, 1_009_123, 1_029_999, Name="add(int*, int)", pid=6, **work),
                    arrow(0, (2, 11, 1_003), (6, 1, 1_009)),
                ],
            )
        )
    )
    assert run.table("host_ops").select("pid", "tid").rows() == [(9, 11)]
    assert run.table("device_ops").get_column("pid").to_list() == [9]
    assert run.table("device_ops").get_column("launch_id").null_count() == 0


def test_an_event_as_a_user_quoted_it(tmp_path: Path) -> None:
    """The call of a results.json that ROCm's users show in an issue; with a kernel of ours."""
    quoted = """,{"ph":"X","name":"hipMalloc","pid":2,"tid":2385,"ts":"1201478076","dur":"470125",
  "args":{
    "BeginNs":"1201478076289",
    "EndNs":"1201948202129",
    "pid":"2385",
    "tid":"2385",
    "Name":"hipMalloc",
    "args":"( ptr(0x7d2933000000) size(8589934592))",
    "Data":"",
    "DurationNs":"470125840"
  }
}
"""
    calls = read(write(tmp_path / "results.json", [quoted])).tables["host_ops"]
    assert calls.select("name", "layer", "pid", "start_ns", "end_ns").rows() == [
        ("hipMalloc", "runtime", 2385, 1_201_478_076_289, 1_201_948_202_129)
    ]


def test_damage(tmp_path: Path) -> None:
    path = write(tmp_path / "results.json", EVENTS)
    survive_damage(rocprof_legacy.read, path, path.read_bytes())


@pytest.mark.corpus
def test_json_is_equal_to_the_database_and_the_csv(corpus: Path, tmp_path: Path) -> None:
    """Kernels of a real results.db, written as rocprof writes both of the other files."""
    folder = corpus / "rocprof_legacy/amd__HPCTrainingExamples/rocm-blogs-codes"
    database = folder / "finite-difference/examples/results.db"
    rows = sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)
    rows.row_factory = sqlite3.Row
    kernels = [dict(row) for row in rows.execute("SELECT * FROM KERN")]
    pl.DataFrame(kernels).with_columns(pl.col("KernelName").str.strip_chars('"')).write_csv(
        tmp_path / "results.csv"
    )
    events = []
    for kernel in kernels:
        known = {k: v for k, v in kernel.items() if k not in ("Index", "BeginNs", "EndNs")}
        known["KernelName"] = known["KernelName"].strip('"')
        process = 6 + int(kernel["gpu-id"])
        events.append(event(process, 0, kernel["BeginNs"], kernel["EndNs"], **known))
    trace = write(tmp_path / "results.json", events)
    tables = [
        sightline.open(str(path)).table("device_ops").drop("recording_id")
        for path in (trace, tmp_path / "results.csv", database)
    ]
    assert tables[0].height == len(kernels) == 1004
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])
