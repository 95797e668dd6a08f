"""How fast an Nsight Systems export becomes a store, and how much memory that takes.

    python benchmarks/nsys_import.py [ROWS] [--runs RUNS] [--keep FOLDER] [--parquet | --report]

Writes an export of ROWS rows (default 3 million): one third kernels, two thirds API calls on two
threads, with call chains off, as nsys does for a training run. Reads it RUNS times into a store,
each in a process of its own, and prints rows/s, peak memory, and the same for a floor: plain
sqlite3 that fetches the same columns and drops them. With --parquet the import reads the same
tables as a folder of Parquet files, as `nsys export --type parquetdir` writes. With --report it
reads the same kernels and calls as a report (.nsys-rep), and the floor is its events alone, read
into columns and dropped. What Python takes to load modules is part of neither, and is printed
beside them.
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl

PID, THREADS = (1 << 48) | (4242 << 24), (4242, 4243)
API = (
    "start",
    "end",
    "eventClass",
    "globalTid",
    "correlationId",
    "nameId",
    "returnValue",
    "callchainId",
)
KERNEL = (
    "start", "end", "deviceId", "contextId", "greenContextId", "streamId", "correlationId",
    "globalPid", "demangledName", "shortName", "mangledName", "launchType", "cacheConfig",
    "registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
    "staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread", "localMemoryTotal",
    "gridId", "sharedMemoryExecuted", "graphNodeId", "sharedMemoryLimitConfig",
    "qmdBulkReleaseDone", "qmdPreexitDone", "qmdLastCtaDone", "graphId", "clusterX", "clusterY",
    "clusterZ", "clusterSchedulingPolicy", "maxPotentialClusterSize", "maxActiveClusters",
)  # fmt: skip


def kernels(count: int) -> Iterator[tuple[int | None, ...]]:
    """Kernels of 1 to 40 µs, of 60 kinds, with the launch shape that goes with the kind."""
    at = 10**9
    for i in range(count):
        kind = i * 7919 % 60
        at += 6_000 + kind * 600
        yield (
            at, at + 1_000 + kind * 650, 0, 1, None, 7 + kind % 3, 2 * i, PID, 100 + kind,
            200 + kind, 300 + kind, 1, 0, 32 + kind, 128 * (1 + kind % 9), 1 + kind % 2, 1,
            256, 1, 1, 0, 1024 * (kind % 5), 0, 250_871_808, i + 1, 8192, None, 0, None, None,
            None, None, 0, 0, 0, 0, 0, 0,
        )  # fmt: skip


def calls(count: int) -> Iterator[tuple[int | None, ...]]:
    """Launches and other calls in turn, of two threads."""
    at = 10**9 - 9_000
    for i in range(count):
        kind = i * 7919 % 60
        at += 3_000 + kind * 300
        thread = PID | THREADS[i // 10_000 % 2]
        yield at, at + 1_500 + kind * 10, 0, thread, i, 10 + i % 2 * (1 + kind % 8), 0, None


def write(path: Path, rows: int) -> None:
    """The export."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    quoted = {
        "k": ", ".join(f'"{c}" INTEGER' for c in KERNEL),
        "a": ", ".join(f'"{c}" INTEGER' for c in API),
    }
    db.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({quoted['k']})")
    db.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME ({quoted['a']})")
    db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    db.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
    db.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER)")
    db.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.25.0')")
    db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000)")
    db.executemany(
        "INSERT INTO StringIds VALUES (?, ?)",
        (
            (i, f"void library::kernel_{i}<float, (int){i}>(float const*, float*, int)")
            for i in range(400)
        ),
    )
    for table, columns, values in (
        ("KERNEL", KERNEL, kernels(rows // 3)),
        ("RUNTIME", API, calls(rows - rows // 3)),
    ):
        marks = ", ".join("?" for _ in columns)
        db.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_{table} VALUES ({marks})", values)
    db.commit()
    db.close()


def write_folder(path: Path, folder: Path) -> None:
    """The export's tables as Parquet files, numbers as narrow as they can be."""
    folder.mkdir()
    db = sqlite3.connect(path)
    for (table,) in db.execute("SELECT name FROM sqlite_master").fetchall():
        cursor = db.execute(f"SELECT * FROM {table}")
        columns = [c[0] for c in cursor.description]
        kind = pl.String if "value" in columns else pl.Int64
        schema = dict.fromkeys(columns, kind) | ({"id": pl.Int64} if "id" in columns else {})
        parts = []
        while rows := cursor.fetchmany(100_000):
            parts.append(pl.DataFrame(rows, schema=schema, orient="row"))
        whole = pl.concat(parts)
        whole = whole.with_columns(c.shrink_dtype() for c in whole if c.dtype.is_integer())
        whole.write_parquet(folder / f"{table}.parquet")
    db.close()


def write_report(path: Path, rows: int) -> None:
    """The same kernels and calls as a report: a kernel, then two calls, and so on."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from support.reports import Report, delimited, message, pack, varint

    def head(field: int, *values: int) -> bytes:
        return b"".join(varint((field + i) << 3) + varint(v) for i, v in enumerate(values))

    shapes: dict[tuple[int | None, ...], bytes] = {}

    def kernel(row: tuple[int | None, ...]) -> bytes:
        values = dict(zip(KERNEL, row, strict=True))
        key = row[8:24]
        if key not in shapes:
            numbers = {1: "demangledName", 2: "shortName", 3: "mangledName", 24: "launchType"}
            numbers |= {10: "gridX", 11: "gridY", 12: "gridZ", 13: "blockX", 14: "blockY"}
            numbers |= {15: "blockZ", 17: "dynamicSharedMemory", 21: "registersPerThread"}
            numbers |= {19: "localMemoryTotal", 22: "sharedMemoryExecuted"}
            shapes[key] = message({n: values[name] for n, name in numbers.items()})
        shape = shapes[key] + head(20, values["gridId"] or 0)
        times = head(1, row[0] or 0, row[1] or 0, row[6] or 0, 0, 1, row[5] or 0)
        body = times + head(8, PID) + b"\xaa\x06" + delimited(shape)
        return b"\x08\x4f\xda\x06" + delimited(body)

    def call(row: tuple[int | None, ...]) -> bytes:
        start, end, _, thread, correlation, name, *_ = (v or 0 for v in row)
        body = head(1, start, end, correlation) + head(6, 0, name, 0) + head(13, thread)
        return b"\x08\x30\xe2\x06" + delimited(body)

    report = Report(declared=0)
    for i in range(400):
        report.text(f"void library::kernel_{i}<float, (int){i}>(float const*, float*, int)")
    blocks: list[bytes] = []
    block: list[bytes] = []

    def flush() -> None:
        blocks.append(pack(delimited(b"".join(b"\x0a" + delimited(e) for e in block))))
        report.declared = (report.declared or 0) + len(block)
        block.clear()

    waiting = calls(rows - rows // 3)
    for row in kernels(rows // 3):
        block += [kernel(row), call(next(waiting)), call(next(waiting))]
        if len(block) >= report.per_block:
            flush()
    block += map(call, waiting)
    flush()
    path.write_bytes(report.assemble(blocks))


def events(path: str) -> int:
    """What a report's events alone need, as columns that are dropped."""
    from sightline.formats.nvidia._nsys.report.database import ReportDatabase

    db = ReportDatabase(Path(path), path)
    return sum(db.count(f"CUPTI_ACTIVITY_KIND_{table}") for table in ("KERNEL", "RUNTIME"))


def floor(path: str) -> int:
    """What plain sqlite3 needs for the same columns."""
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    seen = 0
    for table, columns in (("KERNEL", KERNEL), ("RUNTIME", API)):
        names = ", ".join(f'"{c}"' for c in columns)
        cursor = db.execute(f"SELECT {names} FROM CUPTI_ACTIVITY_KIND_{table}")
        while rows := cursor.fetchmany(10_000):
            seen += len(rows)
    return seen


def ours(path: str) -> int:
    """The import into the store."""
    import sightline

    run = sightline.open(path)
    return run.rows("device_ops") + run.rows("host_ops")


def child(what: str, path: str) -> None:
    """Print rows, seconds, CPU seconds, peak MB, and the seconds until all modules are there."""
    began = time.perf_counter()
    if what != "floor":
        importlib.import_module("sightline.opening.imports")
        importlib.import_module("sightline.formats.nvidia._nsys.reading")
    loaded = time.perf_counter()
    rows = {"floor": floor, "events": events, "ours": ours}[what](path)
    ended = time.perf_counter()
    usages = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(u.ru_utime + u.ru_stime for u in usages)
    peak = max(u.ru_maxrss for u in usages) / 1024
    print(rows, ended - loaded, cpu, peak, loaded - began)


def measured(what: str, path: Path, cache: Path) -> tuple[float, ...]:
    """What a child prints, of a fresh process and an empty cache."""
    shutil.rmtree(cache, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, __file__, "--child", what, str(path)],
        # Modules are compiled once, as those of an installed program are.
        env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        | {"SIGHTLINE_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(map(float, done.stdout.split()))


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=3_000_000)
    parser.add_argument("--runs", type=int, default=3, help="imports; the floor is read once")
    parser.add_argument("--keep", type=Path, help="folder for the export, to use it again")
    parser.add_argument("--parquet", action="store_true", help="import a folder of Parquet files")
    parser.add_argument("--report", action="store_true", help="import a report")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(*args.child)
        return
    with tempfile.TemporaryDirectory() as scratch:
        ending, write_input = ("nsys-rep", write_report) if args.report else ("sqlite", write)
        path = (args.keep or Path(scratch)) / f"bench{args.rows}.{ending}"
        if not path.exists():
            write_input(path, args.rows)
        ours = path.with_suffix(".parquetdir") if args.parquet else path
        if not ours.exists():
            write_folder(path, ours)
        size = path.stat().st_size / 1e6
        print(f"{args.rows:,} rows, {size:,.0f} MB, {os.cpu_count()} cores")
        times = {}
        floor_is = "events" if args.report else "floor"
        for what, runs in ((floor_is, 1), ("ours", args.runs)):
            given = ours if what == "ours" else path
            every = [measured(what, given, Path(scratch) / "cache") for _ in range(runs)]
            for rows, seconds, cpu, peak, load in every:
                speed = f"{rows / seconds / 1e6:6.2f} M rows/s  {size / seconds:6.1f} MB/s"
                print(
                    f"{what:6}{seconds:7.2f} s {speed} {cpu:6.2f} CPU s  peak {peak:,.0f} MB"
                    f"  (modules {load:.2f} s)"
                )
            times[what] = statistics.median(seconds for _, seconds, *_ in every)
        middle = args.rows / times["ours"] / 1e6
        print(
            f"median {middle:.2f} M rows/s, {times[floor_is] / times['ours']:.2f} times the floor"
        )


if __name__ == "__main__":
    main()
