"""nvprof's SQLite files, table by table as its version 10 and 11 wrote them."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.run import Run
from sightline.formats.nvidia.nvprof.host import list_callbacks

BASE = 1_600_000_000_000_000_000
PID, MAIN, OTHER = 405, 0xF0001000, 17
_INT, _BLOB = "INT NOT NULL", "BLOB NOT NULL"
_WORK = "start end deviceId contextId streamId correlationId"
_CALL = "cbid start end processId threadId correlationId returnValue"
_GRID = "gridX gridY gridZ blockX blockY blockZ"
TABLES = {
    "MEMCPY": f"copyKind srcKind dstKind flags bytes {_WORK} runtimeCorrelationId",
    "MEMSET": f"value bytes {_WORK} flags memoryKind",
    "KERNEL": f"name {_WORK} {_GRID} registersPerThread",
    "CONCURRENT_KERNEL": f"name {_WORK} {_GRID} registersPerThread staticSharedMemory "
    "dynamicSharedMemory localMemoryPerThread localMemoryTotal launchType",
    "DRIVER": _CALL,
    "RUNTIME": _CALL,
    "DEVICE": "id numMultiprocessors coreClockRate globalMemorySize globalMemoryBandwidth "
    "numThreadsPerWarp maxRegistersPerMultiprocessor maxSharedMemoryPerMultiprocessor l2CacheSize "
    "computeCapabilityMajor computeCapabilityMinor maxWarpsPerMultiprocessor name",
    "CONTEXT": "contextId deviceId computeApiKind nullStreamId",
    "MARKER": "flags timestamp id objectKind objectId name domain",
    "OVERHEAD": "overheadKind objectKind objectId start end",
    "SYNCHRONIZATION": "type start end correlationId contextId streamId cudaEventId",
    "CUDA_EVENT": "correlationId contextId streamId eventId",
    "UNIFIED_MEMORY_COUNTER": "counterKind value start end address srcId dstId streamId "
    "processId flags",
    "METRIC": "correlationId id value flags",
}


class File:
    """A file of nvprof's, written row by row; what a row does not say is 0."""

    def __init__(self, path: Path) -> None:
        self.path, self.db, self.texts = path, sqlite3.connect(path), {"-- null --": 0}
        run = self.db.execute
        run(
            "CREATE TABLE StringTable( _id_ INTEGER PRIMARY KEY AUTOINCREMENT, "
            "value TEXT NOT NULL UNIQUE )"
        )
        run("INSERT INTO StringTable VALUES (0, '-- null --')")
        run("CREATE TABLE Version( version INTEGER)")
        run("INSERT INTO Version VALUES (11)")
        for name, columns in TABLES.items():
            typed = ", ".join(f"{c} {_BLOB if c == 'objectId' else _INT}" for c in columns.split())
            run(
                f"CREATE TABLE CUPTI_ACTIVITY_KIND_{name}"
                f"(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, {typed})"
            )

    def text(self, value: str) -> int:
        if value not in self.texts:
            self.texts[value] = len(self.texts)
            row = (self.texts[value], value)
            self.db.execute("INSERT INTO StringTable VALUES (?, ?)", row)
        return self.texts[value]

    def add(self, table: str, **values: Any) -> None:
        columns = TABLES[table].split()
        filled = [values.get(c, 0) for c in columns]
        marks = ", ".join("?" * len(columns))
        self.db.execute(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_{table} ({', '.join(columns)}) VALUES ({marks})",
            filled,
        )

    def call(self, name: str, start: int, end: int, number: int, tid: int = MAIN) -> None:
        domain = "runtime" if name.startswith("cuda") else "driver"
        cbid = next(n for (d, n), known in list_callbacks().items() if (d, known) == (domain, name))
        signed = tid - (1 << 32) if tid >= 1 << 31 else tid
        self.add(
            domain.upper(), cbid=cbid, start=BASE + start, end=BASE + end, processId=PID,
            threadId=signed, correlationId=number,
        )  # fmt: skip

    def kernel(
        self, name: str, start: int, end: int, number: int, table: str = "CONCURRENT_KERNEL"
    ) -> None:
        self.add(
            table, name=self.text(name), start=BASE + start, end=BASE + end, contextId=1,
            streamId=7, correlationId=number, gridX=64, gridY=2, gridZ=1, blockX=128, blockY=1,
            blockZ=1, registersPerThread=32,
        )  # fmt: skip

    def close(self) -> Path:
        self.db.commit()
        self.db.close()
        return self.path


def write_file(path: Path) -> Path:
    """A copy, a kernel in a range, a fill, a wait, a migration, overhead: a row of each."""
    file = File(path)
    file.add(
        "DEVICE", id=0, numMultiprocessors=80, coreClockRate=1_455_000, globalMemorySize=12 << 30,
        globalMemoryBandwidth=652_800_000, numThreadsPerWarp=32, computeCapabilityMajor=7,
        maxWarpsPerMultiprocessor=64, name=file.text("TITAN V"),
    )  # fmt: skip
    file.add("CONTEXT", contextId=1, deviceId=0)
    file.call("cudaMemcpy", 1_000, 21_000, 1)
    file.call("cuMemcpyHtoD_v2", 1_500, 20_500, 2)
    file.add(
        "MEMCPY", copyKind=1, srcKind=1, dstKind=3, bytes=4_096, start=BASE + 2_000,
        end=BASE + 20_000, contextId=1, streamId=7, correlationId=2, runtimeCorrelationId=1,
    )  # fmt: skip
    owner = struct.pack("<III", PID, MAIN, 0)
    for flags, at, name in ((2, 22_000, "step"), (4, 90_000, "-- null --")):
        file.add(
            "MARKER", flags=flags, timestamp=BASE + at, id=1, objectKind=2, objectId=owner,
            name=file.text(name),
        )  # fmt: skip
    file.call("cudaLaunchKernel", 23_000, 25_000, 3)
    file.kernel("_Z5scalePfi", 30_000, 70_000, 3)
    file.call("cudaMemsetAsync", 26_000, 27_000, 4)
    file.add(
        "MEMSET", value=0, bytes=512, start=BASE + 71_000, end=BASE + 72_000, contextId=1,
        streamId=7, correlationId=4, memoryKind=3,
    )  # fmt: skip
    file.call("cudaStreamSynchronize", 28_000, 73_000, 5)
    file.add(
        "SYNCHRONIZATION", type=3, start=BASE + 28_500, end=BASE + 72_500, correlationId=5,
        contextId=1, streamId=7, cudaEventId=-1,
    )  # fmt: skip
    file.add(
        "UNIFIED_MEMORY_COUNTER", counterKind=2, value=65_536, start=BASE + 80_000,
        end=BASE + 81_000, address=4_096, srcId=0, dstId=0, processId=PID, flags=2,
    )  # fmt: skip
    file.add(
        "OVERHEAD", overheadKind=1 << 16, objectKind=2, objectId=owner, start=BASE + 82_000,
        end=BASE + 83_000,
    )  # fmt: skip
    file.call("cudaFree", 0, 500, 6, tid=OTHER)
    return file.close()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return sightline.open(str(write_file(tmp_path / "timeline.nvvp")))


def test_what_the_device_did(run: Run) -> None:
    ops = run.table("device_ops").sort("start_ns").to_dicts()
    assert [(o["kind"], o["name"]) for o in ops] == [
        ("memcpy", "[CUDA memcpy HtoD]"),
        ("kernel", "scale(float*, int)"),
        ("memset", "[CUDA memset]"),
        ("memcpy", "[CUDA memcpy UVM DtoH]"),
    ]
    copy, kernel, fill, moved = ops
    assert (copy["bytes"], copy["src_kind"], copy["dst_kind"]) == (4_096, "pageable", "device")
    assert (kernel["grid_x"], kernel["grid_y"], kernel["block_x"]) == (64, 2, 128)
    assert kernel["end_ns"] - kernel["start_ns"] == 40_000
    assert (fill["bytes"], fill["dst_kind"]) == (512, "device")
    assert (moved["bytes"], moved["migration_cause"]) == (65_536, "page fault")


def test_each_operation_has_its_call(run: Run) -> None:
    calls = dict(run.table("host_ops").select("host_op_id", "name").rows())
    launched = run.table("device_ops").sort("start_ns").get_column("launch_id").to_list()
    assert [calls.get(i) for i in launched] == [
        "cudaMemcpy", "cudaLaunchKernel", "cudaMemsetAsync", None,
    ]  # fmt: skip
    (wait,) = run.table("syncs").to_dicts()
    assert (wait["kind"], wait["stream_id"], calls[wait["host_op_id"]]) == (
        "stream", 7, "cudaStreamSynchronize",
    )  # fmt: skip


def test_what_the_host_did(run: Run) -> None:
    host = {row["name"]: row for row in run.table("host_ops").to_dicts()}
    assert (host["step"]["layer"], host["step"]["tid"]) == ("annotation", MAIN)
    assert host["cudaLaunchKernel"]["parent_id"] == host["step"]["host_op_id"]
    assert host["cuMemcpyHtoD_v2"]["parent_id"] == host["cudaMemcpy"]["host_op_id"]
    assert (host["cudaFree"]["pid"], host["cudaFree"]["tid"]) == (PID, OTHER)
    assert host["Buffer flush (Profiler)"]["layer"] == "overhead"


def test_the_gpu(run: Run) -> None:
    (gpu,) = run.table("devices").to_dicts()
    assert (gpu["name"], gpu["sm_count"], gpu["compute_capability"]) == ("TITAN V", 80, "7.0")
    assert gpu["max_clock_hz"] == 1_455_000_000
    assert gpu["memory_bandwidth_bytes_per_s"] == 652_800_000_000
    assert gpu["max_threads_per_sm"] == 2_048


def test_kernels_that_were_kept_apart(tmp_path: Path) -> None:
    """`--concurrent-kernels off` writes them into the older table."""
    file = File(tmp_path / "a.nvprof")
    file.kernel("plain", 0, 5_000, 1, table="KERNEL")
    ops = sightline.open(str(file.close())).table("device_ops")
    assert ops.get_column("name").to_list() == ["plain"]


def test_a_file_without_a_row(tmp_path: Path) -> None:
    run = sightline.open(str(File(tmp_path / "a.nvvp").close()))
    kinds = run.table("quality").select("kind", "severity").rows()
    assert ("nothing_recorded", "error") in kinds
    assert run.findings() == [] or all(f.abstained for f in run.findings())


def test_an_unknown_call_an_unknown_name_and_counters_are_told(tmp_path: Path) -> None:
    file = File(tmp_path / "a.nvprof")
    file.add("RUNTIME", cbid=99_999, start=BASE, end=BASE + 10, processId=1, threadId=1)
    file.add(
        "CONCURRENT_KERNEL", name=77, start=BASE + 20, end=BASE + 30, contextId=1, correlationId=9
    )
    file.add("CONCURRENT_KERNEL", name=77, start=0, end=0, contextId=1, correlationId=10)
    file.add("METRIC", id=1, value=2)
    run = sightline.open(str(file.close()))
    assert run.table("host_ops").get_column("name").to_list() == ["unknown call 99999"]
    assert run.table("device_ops").get_column("name").to_list() == ["unknown kernel"]
    kinds = dict(run.table("quality").select("kind", "count").rows())
    assert (kinds["untimed_ops"], kinds["unread_tables"]) == (1, 1)


def test_gaps_between_kernels_that_were_counted_are_the_profilers(tmp_path: Path) -> None:
    """nvprof --analysis-metrics runs each kernel alone, many times."""
    file = File(tmp_path / "a.nvprof")
    for n in range(50):
        start = BASE + n * 1_000_000
        times = {"start": start, "end": start + 10_000}
        file.add("CONCURRENT_KERNEL", name=77, contextId=1, correlationId=n, **times)
        file.add("METRIC", id=1, value=2)
    run = sightline.open(str(file.close()))
    assert "serialized_kernels" in run.table("quality").get_column("kind").to_list()
    said = [f for f in run.findings() if not f.abstained and f.severity != "info"]
    assert not [f for f in said if "idle" in f.title.lower() or "busy" in f.title.lower()]


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.nvvp")
    path.write_bytes(path.read_bytes()[:-4_096])
    run = sightline.open(str(path))
    assert "cut_off" in run.table("quality").get_column("kind").to_list()


def test_numbers_of_calls() -> None:
    """As the headers of CUDA 8 and 12 have them: ids never change."""
    names = list_callbacks()
    assert names["runtime", 13] == "cudaLaunch"
    assert names["runtime", 211] == "cudaLaunchKernel"
    assert names["runtime", 31] == "cudaMemcpy"
    assert names["driver", 307] == "cuLaunchKernel"
