"""Nsight Systems reports: small ones, event family by event family, against what they say."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.formats.nvidia._nsys.report.database import ReportDatabase
from support.command import sightline as command
from support.reports import (
    CUPTI_OVERHEAD,
    DRIVER,
    OSRT,
    OVERHEAD,
    PROCESS,
    RUNTIME,
    THREAD,
    Report,
)

START = 500 + 1000 + 1_700_000_000_000_000_000  # the session's start on the wall clock


def open_report(report: Report, folder: Path) -> ReportDatabase:
    path = report.write(folder / "run.nsys-rep")
    return ReportDatabase(path, path.name)


def test_a_kernel_a_copy_and_their_calls(tmp_path: Path) -> None:
    report = Report()
    report.call("cudaLaunchKernel_v7000", start=100, end=110, correlation=1)
    report.call("cudaMemcpy_v3020", start=120, end=300, correlation=2)
    shape = {16: 48, 17: 1024, 21: 32, 22: 8192, 31: 2, 32: 1, 33: 1}
    report.kernel("void saxpy<float>(int)", start=150, end=190, correlation=1, kernel=shape)
    report.copy(1, start=200, end=290, correlation=2, size=4096)
    run = sightline.open(str(report.write(tmp_path / "run.nsys-rep")))
    ops = run.table("device_ops")
    wanted = ("kind", "start_ns", "end_ns", "launch_id", "bytes", "grid_x", "block_x", "cluster_x")
    assert ops.select(wanted).rows() == [
        ("kernel", START + 150, START + 190, 0, None, 2, 64, 2),
        ("memcpy", START + 200, START + 290, 1, 4096, None, None, None),
    ]
    assert ops.row(0, named=True) | {
        "static_shared_bytes": 48,
        "dynamic_shared_bytes": 1024,
        "registers_per_thread": 32,
        "shared_executed_bytes": 8192,
        "stream_id": 7,
    } == ops.row(0, named=True)
    assert run.table("devices").select("name", "sm_count").rows() == [("NVIDIA H200", 132)]
    calls = run.table("host_ops").select("layer", "name", "start_ns", "end_ns")
    assert calls.rows() == [
        ("runtime", "cudaLaunchKernel_v7000", START + 100, START + 110),
        ("runtime", "cudaMemcpy_v3020", START + 120, START + 300),
    ]
    assert run.table("recordings").item(0, "tool_version") == "2025.1.1.110"


def test_negative_and_default_values(tmp_path: Path) -> None:
    """A process older than the session, an event without the fields that have their default."""
    report = Report()
    report.event(27, 113, {1: -(10**15), 2: PROCESS, 5: "/usr/bin/app"})
    report.event(79, 107, {2: 5, 8: PROCESS, 101: {1: report.text("k")}})
    db = open_report(report, tmp_path)
    assert db.rows("PROCESSES", ["globalPid", "pid", "name"]).rows() == [
        (PROCESS, 1234, "/usr/bin/app")
    ]
    wanted = ["start", "end", "deviceId", "gridX", "greenContextId", "mangledName", "graphId"]
    assert db.ints("CUPTI_ACTIVITY_KIND_KERNEL", wanted).rows() == [(0, 5, 0, 0, None, None, None)]


def test_call_chains(tmp_path: Path) -> None:
    """Chains of each table count from 1; a call without one has 0 (OS) or none (CUDA)."""
    report = Report()
    report.call("read", start=1, end=2, kind=OSRT)
    report.call("read", start=3, end=4, kind=OSRT, frames=[("read", "libc"), ("main", "app")])
    report.call("cudaFree", start=5, end=6, kind=RUNTIME, frames=[("main", "app")])
    report.call("write", start=7, end=8, kind=OSRT, frames=[("write", "libc")])
    report.call("cuInit", start=9, end=10, kind=DRIVER)
    db = open_report(report, tmp_path)
    assert db.ints("OSRT_API", ["callchainId", "start"]).rows() == [(0, 1), (1, 3), (2, 7)]
    runtime = db.ints("CUPTI_ACTIVITY_KIND_RUNTIME", ["callchainId", "eventClass"])
    assert runtime.rows() == [(1, 0), (None, 1)]
    frames = db.named(db.ints("OSRT_CALLCHAINS", ["id", "stackDepth", "symbol"]), name="symbol")
    assert frames.cast({"name": pl.String}).rows() == [
        (1, 0, "read"),
        (1, 1, "main"),
        (2, 0, "write"),
    ]


def test_ranges_with_payloads_domains_and_categories(tmp_path: Path) -> None:
    report = Report()
    report.event(75, 102, {1: 75, 2: 1, 7: "data", 9: THREAD, 13: 1})
    report.event(33, 102, {1: 33, 2: 2, 5: 3, 7: "io", 9: THREAD, 13: 1})
    report.range("load", start=10, end=90, fields={5: 3, 8: {2: -7}, 13: 1})
    report.range("part", start=20, end=30, fields={8: {3: 0.25}})
    report.event(34, 102, {1: 34, 2: 40, 12: report.text("mark"), 9: THREAD, 13: 0})
    report.range("open", start=50, end=None)
    run = sightline.open(str(report.write(tmp_path / "run.nsys-rep")))
    found = run.table("host_ops").select(
        "name", "range_kind", pl.col("end_ns") - pl.col("start_ns"), "domain", "category", "payload"
    )
    assert found.rows() == [
        ("load", "pushpop", 80, "data", "io", "-7"),
        ("part", "pushpop", 10, None, None, "0.25"),
        ("mark", "mark", 0, None, None, None),
        ("open", "pushpop", 10**9 - 50, None, None, None),
    ]


def test_samples_switches_overhead_and_messages(tmp_path: Path) -> None:
    report = Report()
    frame = {1: report.text("spin"), 2: report.text("app"), 8: 77}
    report.event(31, 104, {1: 5, 3: 2, 4: [frame], 5: {2: 1000}, 11: THREAD, 12: 1})
    report.event(41, 106, {1: 9, 3: 2, 4: 1, 6: THREAD})
    report.event(41, 106, {1: 19, 3: 2, 5: 2, 6: THREAD})
    report.call("Injection", start=1, end=3, kind=OVERHEAD)
    report.call("Lazy Function Loading", start=4, end=8, kind=CUPTI_OVERHEAD)
    report.event(49, 110, {1: {1: 3, 2: 1}, 2: 2, 3: 2, 4: "few buffers", 5: PROCESS})
    run = sightline.open(str(report.write(tmp_path / "run.nsys-rep")))
    samples = run.table("cpu_samples").select("time_ns", "cpu", "tid", "weight_cycles", "on_cpu")
    assert samples.rows() == [(START + 5, 2, 1234, 1000, True)]
    switches = run.table("sched_events").select("time_ns", "switched_in", "state")
    assert switches.rows() == [(START + 9, True, None), (START + 19, False, "interruptible")]
    layers = run.table("host_ops").select("name", "layer")
    assert layers.rows() == [("Injection", "overhead"), ("Lazy Function Loading", "overhead")]
    texts = run.table("quality").get_column("text").to_list()
    assert "Nsight Systems says: few buffers" in texts


@pytest.mark.parametrize("new", [False, True], ids=["until 2024.6", "from 2025.1"])
def test_waits(tmp_path: Path, new: bool) -> None:
    report = Report()
    kind = {4: 3, 3: 11} if new else {2: 3}
    report.event(106, 107, {1: 5, 2: 9, 3: 1, 4: 0, 5: 1, 6: 7, 8: PROCESS, 105: {1: 2} | kind})
    db = open_report(report, tmp_path)
    wanted = ["start", "syncType", "eventId", "eventSyncId"]
    found = db.ints("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", wanted)
    assert found.rows() == [(5, 3, 2, 11 if new else None)]


def mpi_report() -> Report:
    """Two ranks: a send, its receive, a wait for two requests, a broadcast that one rank roots."""
    report = Report()
    ranks = [THREAD, THREAD + (1 << 24) + 1]
    entry = {"Communicator": 18, "Tag": 15, "Root": 15, "Destination": 15, "Source": 15}

    def schema(number: int, *names: str) -> dict[int, object]:
        fields, at = [], 0
        for name in names:
            size = 4 if entry.get(name) == 15 else 8
            flags = 48 if name == "Requests" else 0
            fields.append({1: entry.get(name, 18), 2: flags, 3: at, 7: name})
            at += size
        return {1: 2**24 + number, 2: 1, 4: fields, 6: at}

    schemas = [
        schema(1, "Communicator", "Tag", "Destination", "Bytes sent"),
        schema(2, "Communicator", "Tag", "Source", "Bytes received"),
        schema(3, "No. of requests", "Requests"),
        schema(4, "Communicator", "Root", "Tag", "Bytes sent", "Bytes received"),
    ]
    team = {
        1: 9,
        5: "NsysMpiTeam",
        4: [{1: 18, 3: 0, 7: "NewComm"}, {1: 15, 3: 8, 7: "GroupRootUniqueId"}],
    }
    record = {1: 77, 3: 9, 4: (5).to_bytes(8, "little") + (-1).to_bytes(4, "little", signed=True)}
    report.payload_schemas = {
        3: [{1: r - r % 2**24, 2: [*schemas, team], 3: [record]} for r in ranks]
    }

    def call(name: str, start: int, thread: int, number: int = 0, *words: tuple[int, int]) -> None:
        payload = b"".join(value.to_bytes(size, "little") for value, size in words)
        fields = {1: 59, 2: start, 9: thread, 10: start + 5, 12: report.text(name), 13: 1}
        given = {8: {9: {1: 2**24 + number, 2: payload}}} if number else {}
        report.event(59, 102, fields | given)

    for number, thread in enumerate(ranks):
        report.event(75, 102, {1: 75, 2: 1, 7: "MPI", 9: thread, 13: 1})
        report.event(39, 102, {1: 39, 2: 2, 7: f"MPI Rank {number}", 9: thread, 13: 0})
    report.range("solve", start=3, end=99)
    call("MPI_Send", 10, ranks[0], 1, (5, 8), (0, 4), (1, 4), (800, 8))
    call("MPI_Recv", 10, ranks[1], 2, (5, 8), (0, 4), (0, 4), (800, 8))
    call("MPI_Waitall", 20, ranks[0], 3, (2, 8), (70, 8), (71, 8))
    call("MPI_Bcast", 30, ranks[1], 4, (5, 8), (0, 4), (0, 4), (0, 8), (64, 8))
    call("MPI_Finalize", 40, ranks[1])
    return report


def test_mpi_calls_are_told_from_ranges(tmp_path: Path) -> None:
    db = open_report(mpi_report(), tmp_path)
    other = THREAD + (1 << 24) + 1
    assert db.rows("NVTX_EVENTS", ["eventType", "text"]).rows() == [
        (75, "MPI"),
        (39, "MPI Rank 0"),
        (75, "MPI"),
        (39, "MPI Rank 1"),
        (59, "solve"),
    ]
    wanted = ["globalTid", "commHandle", "tag", "remoteRank", "size"]
    assert db.ints("MPI_P2P_EVENTS", wanted).rows() == [
        (THREAD, 5, 0, 1, 800),
        (other, 5, 0, 0, 800),
    ]
    assert db.ints("MPI_START_WAIT_EVENTS", ["start", "requestHandle"]).rows() == [
        (20, 70),
        (20, 71),
    ]
    wanted = ["start", "rootRank", "size", "recvSize"]
    assert db.ints("MPI_COLLECTIVES_EVENTS", wanted).rows() == [(30, 0, None, 64)]
    assert db.ints("MPI_OTHER_EVENTS", ["start"]).rows() == [(40,)]
    assert db.ints("MPI_RANKS", ["globalTid", "rank"]).rows() == [(THREAD, 0), (other, 1)]
    wanted = ["rank", "commHandle", "groupRootUid"]
    assert db.ints("MPI_COMMUNICATORS", wanted).rows() == [(0, 5, None), (1, 5, None)]


def test_ranks_and_world_size_are_known(tmp_path: Path) -> None:
    report = Report(environment={"RANK": "3", "WORLD_SIZE": "8", "AWS_SECRET": "hunter2"})
    report.call("cudaFree", start=1, end=2)
    run = sightline.open(str(report.write(tmp_path / "run.nsys-rep")))
    assert run.table("recordings").select("rank", "world_size").rows() == [(3, 8)]


def test_nothing_private_is_kept(tmp_path: Path) -> None:
    report = Report(environment={"AWS_SECRET": "hunter2"})
    report.streams = [
        {1: PROCESS, 2: report.text("/tmp/out"), 3: report.text("password: swordfish")}
    ]
    report.event(27, 113, {1: 0, 2: PROCESS + (9 << 24), 6: "mysqld", 9: ["--password=xyzzy"]})
    report.call("cudaFree", start=1, end=2)
    path = report.write(tmp_path / "run.nsys-rep")
    assert command("import", path, "-o", tmp_path / "run.sightline").code == 0
    stored = b"".join(
        p.read_bytes() for p in (tmp_path / "run.sightline").rglob("*") if p.is_file()
    )
    for secret in (b"hunter2", b"swordfish", b"secret-host", b"mysqld", b"xyzzy"):
        assert secret not in stored, secret


def test_the_wall_clock_of_2025_6_and_later(tmp_path: Path) -> None:
    """The session's start is on the system's clock, and one moment is known on both."""
    from sightline.formats.nvidia._nsys.report import facts
    from sightline.formats.nvidia._nsys.report.container import open_container
    from support import reports

    path = Report().write(tmp_path / "run.nsys-rep")
    container = open_container(path, path.name)
    conversion = reports.message(
        {
            1: {1: [{1: b"u", 2: 11}, {1: b"s", 2: 7}]},
            2: {1: [{1: b"u", 2: b"s", 4: {1: 1_700_000_000_000_001_000, 2: 700}}]},
        }
    )
    (tmp_path / "c").write_bytes(conversion)
    given = type(container)(
        **{
            **container.__dict__,
            "path": tmp_path / "c",
            "sections": {"Time Conversion Data": (0, len(conversion))},
        }
    )
    assert facts.find_start(given).item(0, "utcEpochNs") == 1_700_000_000_000_001_000 + 500 - 700


def test_the_formats_say_what_is_proven() -> None:
    out = " ".join(command("formats").out.split())
    assert "proven against nsys' own exports: kernels, copies" in out
    assert "without an export: CUDA graphs, memory use" in out
    assert "never seen in a report: unified memory" in out


def test_what_the_program_printed_last_says_how_it_ended(tmp_path: Path) -> None:
    report = Report()
    printed = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: 3 of 2\n'
    report.streams = [
        {1: PROCESS, 2: report.text("/tmp/streams/pid_7_stdout.log"), 3: report.text("")},
        {1: PROCESS, 2: report.text("/tmp/streams/pid_7_stderr.log"), 3: report.text(printed)},
    ]
    report.call("cudaFree", start=1, end=2)
    run = sightline.open(str(report.write(tmp_path / "run.nsys-rep")))
    said = run.table("quality").filter(pl.col("kind") == "program_error").get_column("text")
    assert said.to_list() == ["the program ended with an error: ValueError: 3 of 2"]
