"""What events of LTTng and THAPI become, of traces that are written bit by bit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sightline
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.errors import InputError
from sightline.formats.system import ctf
from sightline.views.terminal.screen import render_screen
from support.ctf_traces import Bits, declare_events, write_trace
from support.kernel_traces import CONTEXT, EVENTS, switch
from support.rules import answers, assert_abstains

CALLS = [
    ("lttng_ust_hip:hipMemcpy_entry", "uint64_t size;"),
    ("lttng_ust_hip:hipMemcpy_exit", "uint32_t hipResult;"),
    ("solver:residual", "uint32_t value;"),
    ("lttng_python:event", "string msg; string logger_name;"),
]
THREAD = "event.context := struct { uint32_t vpid; uint32_t vtid; };"


def read(folder: Path) -> Imported:
    return ctf.read(Source(folder, folder.name), ImportOptions())


def kernel(folder: Path, *events: tuple[int, int, Any]) -> Path:
    """A kernel's trace of CPU 3: events with time, number and fields (texts, or value and bits)."""
    bits = Bits().integer(3, 32)
    for time, number, fields in events:
        bits.integer(number, 8).integer(time, 64)
        for field in fields:
            if isinstance(field, str):
                bits.text(field)
            else:
                bits.integer(*field)
    metadata = declare_events(
        EVENTS, context=CONTEXT, env='hostname = "n1"; tracer_name = "lttng-modules";'
    )
    return write_trace(folder, metadata, bits.bytes())


def rows(frame: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return frame.select(columns).rows()


# Thread 7 runs from 10 to 40, is preempted by 8 until 60, runs, sleeps from 100 to 130; 8 wakes
# it, and is on the CPU from 150 on. All times are 1000 ns after the clock's zero.
STORY = [
    (10, 0, switch(0, 0, 7)),
    (40, 0, switch(7, 0, 8)),
    (60, 0, switch(8, 2, 7)),
    (70, 4, [(5, 32)]),
    (75, 2, [(19, 32), "nvme"]),
    (79, 3, [(19, 32), (1, 32)]),
    (80, 6, [(259, 32), (4096, 64), (8, 32), (4, 32)]),
    (90, 5, [(512, 64)]),
    (95, 7, [(259, 32), (4096, 64), (8, 32), (4, 32)]),
    (100, 0, switch(7, 1, 8)),
    (130, 1, ["t7", (7, 32), (3, 32)]),
    (150, 0, switch(8, 0, 7)),
]


def test_a_kernel_s_events(tmp_path: Path) -> None:
    tables = read(kernel(tmp_path / "k", *STORY)).tables
    assert rows(tables["sched_events"], "time_ns", "cpu", "tid", "switched_in", "state")[:3] == [
        (1010, 3, 7, True, None),
        (1040, 3, 7, False, "R"),
        (1040, 3, 8, True, None),
    ]
    assert rows(tables["wakeups"], "time_ns", "tid", "woken_tid", "cpu") == [(1130, 8, 7, 3)]
    interrupts = rows(tables["interrupts"], "start_ns", "end_ns", "tid", "kind", "number", "name")
    assert interrupts == [(1075, 1079, 7, "irq", 19, "nvme")]
    calls = rows(tables["host_ops"], "start_ns", "end_ns", "tid", "layer", "name", "return_value")
    assert calls == [(1070, 1090, 7, "os", "read", 512)]
    disk = rows(
        tables["disk_requests"], "start_ns", "end_ns", "tid", "device", "sector", "operation"
    )
    assert disk == [(1080, 1095, 7, 259, 4096, "read")]
    assert rows(tables["threads"], "tid", "thread_name") == [(7, "t7"), (8, "t8")]


def test_thread_states_and_interrupts(tmp_path: Path) -> None:
    run = sightline.open(kernel(tmp_path / "k", *STORY))
    states = {row["tid"]: row for row in run.ask("thread_states").to_dicts()}
    seven = states[7]
    assert [seven[f"{name}_ns"] for name in ("running", "preempted", "woken", "blocked")] == [
        70,
        20,
        20,
        30,
    ]
    assert (seven["preemptions"], seven["preempted_by"], seven["woken_by"]) == (
        1,
        "t8 (8)",
        "t8 (8)",
    )
    eight = states[8]
    assert [eight[f"{name}_ns"] for name in ("running", "uninterruptible", "preempted")] == [
        70,
        40,
        0,
    ]
    assert run.ask("interrupt_times").select("count", "total_ns", "p99_ns", "busiest_cpu").row(
        0
    ) == (1, 4, 4, 3)


def user_space(folder: Path, *, mapping: str | None = None) -> Path:
    bits = Bits()
    for number, time, add in (
        (0, 5, [(64, 64)]), (2, 6, [(3, 32)]), (1, 9, [(0, 32)]), (3, 12, ["saved", "train"]),
    ):  # fmt: skip
        bits.integer(number, 8).integer(time, 64).integer(40, 32).integer(41, 32)
        for field in add:
            if isinstance(field, str):
                bits.text(field)
            else:
                bits.integer(*field)
    write_trace(folder, declare_events(CALLS, context=THREAD), bits.bytes())
    if mapping is not None:
        (folder / "sightline-ctf.yaml").write_text(mapping)
    return folder


def test_calls_and_marks_of_user_space(tmp_path: Path) -> None:
    ops = read(user_space(tmp_path / "u")).tables["host_ops"]
    names = ("start_ns", "end_ns", "pid", "tid", "layer", "name", "payload")
    assert rows(ops, *names) == [
        (1005, 1009, 40, 41, "runtime", "hipMemcpy", None),
        (1006, 1006, 40, 41, "annotation", "residual", '{"value":3}'),
        (1012, 1012, 40, 41, "annotation", "saved", '{"msg":"saved","logger_name":"train"}'),
    ]


def test_a_mapping_of_one_s_own(tmp_path: Path) -> None:
    mapping = """
- event: solver:(?<what>.+)
  rows: [{table: counters, columns: {metric: "{what}", value: $value, source: solver}}]
- event: lttng_python:event
  rows: []
"""
    tables = read(user_space(tmp_path / "u", mapping=mapping)).tables
    assert rows(tables["counters"], "time_ns", "metric", "value", "source") == [
        (1006, "residual", 3.0, "solver")
    ]
    assert tables["host_ops"].get_column("name").to_list() == ["hipMemcpy"]
    for wrong in (
        "{",
        "- event: '('",
        "- {event: a, rows: [{table: nothing}]}",
        "- 3",
        "- event: a\n  rows: [{table: host_ops, color: red}]",
    ):
        with pytest.raises(InputError, match=r"sightline-ctf\.yaml"):
            read(user_space(tmp_path / "w", mapping=wrong))


def test_several_hosts_are_several_recordings(tmp_path: Path) -> None:
    kernel(tmp_path / "s/n1/kernel", *STORY)
    user = user_space(tmp_path / "s/n2/ust/uid/0/64-bit")
    with (user / "metadata").open("a") as metadata:
        metadata.write('env { hostname = "n2"; };')
    # Their clocks tell no common time: that they are of one job has to be said.
    run = sightline.open(tmp_path / "s", same_job=True)
    assert run.table("recordings").get_column("format").to_list() == ["ctf", "ctf"]


THAPI = "thapi/argonne-lcf__THAPI/backends"
LINE = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d{9}) - \w+ - vpid: (\d+), vtid: (\d+) - (\S+): \{")
INTERVAL = re.compile(
    r"lttng:host: \{.*vpid = (\d+), vtid = (\d+), ts = (\d+), .*name = \"(.+?)\", dur = (\d+)"
)
NOON = 1704110400 * 10**9  # of THAPI's tests: 2024-01-01 12:00 UTC


@pytest.mark.corpus
@pytest.mark.parametrize("api", ["cuda", "hip"])
def test_calls_are_the_intervals_that_thapi_makes_of_its_events(
    corpus: Path, tmp_path: Path, api: str
) -> None:
    compared = 0
    for path in sorted((corpus / THAPI / api / "tests").glob("*.thapi_text_pretty")):
        events = [LINE.match(line) for line in path.read_text().splitlines()]
        found = [event.groups() for event in events if event is not None]
        names = sorted({event[6] for event in found})
        bits = Bits()
        for hour, minute, second, ns, pid, tid, name in found:
            # Their texts count in ns what they print as a fraction of a second.
            assert (hour, minute, second) == ("12", "00", "00")
            bits.integer(names.index(name), 8).integer(int(ns) // 10**6, 64)
            bits.integer(int(pid), 32).integer(int(tid), 32)
        metadata = declare_events([(name, "") for name in names], context=THREAD)
        metadata = metadata.replace("offset = 1000", f"offset = {NOON}")
        ops = read(write_trace(tmp_path / path.stem, metadata, bits.bytes())).tables["host_ops"]
        calls = ops.filter(pl.col("layer").is_in(["driver", "runtime"]))
        length = pl.col("end_ns") - pl.col("start_ns")
        ours = calls.select("pid", "tid", "start_ns", "name", length=length).rows()
        text = path.with_suffix(".bt_text_pretty").read_text()
        theirs = [
            (int(pid), int(tid), int(ts), name, int(length))
            for pid, tid, ts, name, length in INTERVAL.findall(text)
        ]
        assert sorted(ours) == sorted(theirs), path.name
        compared += len(theirs)
    assert compared >= 1


def test_the_screen_of_a_kernel_s_trace_and_of_a_program_s(tmp_path: Path) -> None:
    screen = str(render_screen(sightline.open(kernel(tmp_path / "k", *STORY)).answer()))
    lines = [" ".join(line.split()) for line in screen.splitlines()]
    assert lines[lines.index("Threads that waited ran preempted woken preempted by") + 1 :][:2] == [
        "t7 (7) 70 ns 20 ns 20 ns t8 (8)",
        "t8 (8) 70 ns 0 ns 0 ns t7 (7)",
    ]
    assert "irq 19 nvme 1 4 ns 4 ns 4 ns" in lines
    assert "read os 1 20 ns 20 ns" in lines
    program = str(render_screen(sightline.open(user_space(tmp_path / "u")).answer()))
    assert "hipMemcpy runtime 1 4 ns 4 ns" in " ".join(program.split())


MESSAGE = "uint32_t count; uint64_t datatype; int32_t {}; int32_t tag; uint64_t comm;"
MPI_CALLS = [
    ("lttng_ust_mpi:MPI_Comm_rank_entry", "uint64_t comm;"),
    ("lttng_ust_mpi:MPI_Comm_rank_exit", "uint32_t rank_val; uint32_t mpiResult;"),
    ("lttng_ust_mpi:MPI_Comm_size_entry", "uint64_t comm;"),
    ("lttng_ust_mpi:MPI_Comm_size_exit", "uint32_t size_val; uint32_t mpiResult;"),
    ("lttng_ust_mpi:MPI_Comm_dup_entry", "uint64_t comm;"),
    ("lttng_ust_mpi:MPI_Comm_dup_exit", "uint64_t newcomm_val; uint32_t mpiResult;"),
    ("lttng_ust_mpi:MPI_Send_entry", MESSAGE.format("dest")),
    ("lttng_ust_mpi:MPI_Send_exit", "uint32_t mpiResult;"),
    ("lttng_ust_mpi:MPI_Recv_c_entry", MESSAGE.format("source")),
    ("lttng_ust_mpi:MPI_Recv_c_exit", "uint32_t mpiResult;"),
    ("lttng_ust_mpi:MPI_Irecv_entry", MESSAGE.format("source")),
    ("lttng_ust_mpi:MPI_Irecv_exit", "uint64_t request_val; uint32_t mpiResult;"),
    ("lttng_ust_mpi:MPI_Wait_entry", "uint64_t request_val;"),
    ("lttng_ust_mpi:MPI_Wait_exit", "uint32_t mpiResult;"),
    ("lttng_ust_mpi:MPI_Barrier_entry", "uint64_t comm;"),
    ("lttng_ust_mpi:MPI_Barrier_exit", "uint32_t mpiResult;"),
]  # fmt: skip
WORLD, DOUBLE = 0x44000000, 0x4C00080B  # of MPICH


def mpi_calls(
    folder: Path, calls: list[tuple[int, int, int, str, list[int], list[int]]], env: str = ""
) -> Path:
    """Calls of processes as THAPI records them: pid, start, end, name, arguments, results."""
    numbers = {name.partition(":")[2]: number for number, (name, _) in enumerate(MPI_CALLS)}
    fields = [[int(size) for size in re.findall(r"int(\d+)_t", text)] for _, text in MPI_CALLS]
    events = []
    for pid, start, end, name, given, back in calls:
        for time, number, values in (
            (start, numbers[f"{name}_entry"], given),
            (end, numbers[f"{name}_exit"], [*back, 0]),
        ):
            events.append((time, number, pid, list(zip(values, fields[number], strict=True))))
    bits = Bits()
    for time, number, pid, values in sorted(events):
        bits.integer(number, 8).integer(time, 64).integer(pid, 32).integer(pid, 32)
        for value, size in values:
            bits.integer(value, size)
    signed = "typealias integer { size = 32; align = 8; signed = true; } := int32_t;\ntrace {"
    metadata = declare_events(MPI_CALLS, context=THREAD, env=env).replace("trace {", signed, 1)
    return write_trace(folder, metadata, bits.bytes())


def test_mpi_calls_and_who_waits_for_whom(tmp_path: Path) -> None:
    """Processes 50 and 60 are ranks 0 and 1; they copy the world, under handles of their own."""
    calls = []
    for pid, rank in ((50, 0), (60, 1)):
        calls += [
            (pid, 10, 11, "MPI_Comm_rank", [WORLD], [rank]),
            (pid, 12, 13, "MPI_Comm_size", [WORLD], [2]),
            (pid, 14, 15, "MPI_Comm_dup", [WORLD], [0x84000000 + rank]),
        ]
    calls += [
        (60, 20, 95, "MPI_Recv_c", [3, DOUBLE, 0, 7, 0x84000001], []),
        (50, 90, 92, "MPI_Send", [3, DOUBLE, 1, 7, 0x84000000], []),
        (50, 100, 101, "MPI_Irecv", [1, DOUBLE, 1, 8, WORLD], [77]),
        (50, 110, 152, "MPI_Wait", [77], []),
        (60, 150, 151, "MPI_Send", [1, DOUBLE, 0, 8, WORLD], []),
        (50, 160, 205, "MPI_Barrier", [WORLD], []),
        (60, 200, 205, "MPI_Barrier", [WORLD], []),
    ]
    run = sightline.open(mpi_calls(tmp_path / "mpi", calls))
    sends = run.table("mpi_events").filter(direction="send").sort("tag")
    assert rows(sends, "mpi_rank", "peer_rank", "tag", "group", "group_size", "bytes") == [
        (0, 1, 7, "world, copy 1", 2, 24),
        (1, 0, 8, "world", 2, 8),
    ]
    assert rows(
        run.ask("mpi_waits"), "pattern", "mpi_rank", "peer_rank", "call_path", "wait_ns"
    ) == [
        ("late sender", 1, 0, "MPI_Recv_c", 70),
        ("late sender", 0, 1, "MPI_Wait", 40),
        ("wait at barrier", 0, 1, "MPI_Barrier", 40),
    ]


@pytest.mark.parametrize("barriers", [3, 12])
def test_ranks_of_two_hosts_whose_clocks_differ(tmp_path: Path, barriers: int) -> None:
    """Host n1 is 5 ms behind: twelve barriers of both show it, three do not."""
    for rank in (0, 1):
        calls: list[Any] = [
            (9, 10, 11, "MPI_Comm_rank", [WORLD], [rank]),
            (9, 12, 13, "MPI_Comm_size", [WORLD], [2]),
        ]
        for n in range(10, 10 + barriers):
            start = n * 10**6 + rank * 1000
            calls.append((9, start, n * 10**6 + 40_000, "MPI_Barrier", [WORLD], []))
        message = [1, DOUBLE, 1 - rank, 7, WORLD]
        if rank:
            calls.append((9, 30_000_000, 33_000_000, "MPI_Recv_c", message, []))
        else:
            calls.append((9, 32_000_000, 32_001_000, "MPI_Send", message, []))
        behind = 5_000_000 * rank
        moved = [(pid, max(a - behind, 1), max(b - behind, 2), *rest) for pid, a, b, *rest in calls]
        mpi_calls(tmp_path / f"rank{rank}", moved, f'hostname = "n{rank}";')
    run = sightline.open(tmp_path)
    late = run.ask("mpi_waits").filter(pattern="late sender")
    if barriers == 3:
        assert run.ask("clocks").is_empty()
        assert rows(late, "mpi_rank", "wait_ns", "uncertainty_ns") == [(1, 3_000_000, None)]
        assert_abstains(run, "late-sender", "compares the clocks")
    else:
        assert run.ask("clocks").get_column("state").to_list() == ["moved", "moved"]
        assert rows(late, "mpi_rank", "peer_rank", "wait_ns") == [(1, 0, 2_000_000)]
        (found,) = answers(run, "late-sender")
        assert (found.cost_ns, found.gain_ns) == (2_000_000, 1_000_000)
