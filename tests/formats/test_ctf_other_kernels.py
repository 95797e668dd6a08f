"""The kernel's events as LTTng before 2.6 and as `perf data convert --to-ctf` name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.formats.system import ctf
from support.ctf_traces import Bits, declare_events, write_trace
from support.kernel_traces import CONTEXT

SWITCH = (
    "string prev_comm; uint32_t prev_{0}; uint64_t prev_state; string next_comm; uint32_t next_{0};"
)
OLD = [
    ("sched_switch", SWITCH.format("tid")),
    ("sys_read", "uint32_t fd;"),
    ("sys_write", "uint32_t fd;"),
    ("exit_syscall", "uint64_t ret;"),
]
PERF_FIELDS = "uint32_t perf_tid; uint32_t perf_pid; "
PERF = [
    ("sched:sched_switch", PERF_FIELDS + SWITCH.format("pid")),
    ("sched:sched_wakeup", PERF_FIELDS + "string comm; uint32_t pid; uint32_t target_cpu;"),
    ("syscalls:sys_enter_read", PERF_FIELDS + "uint32_t nr; uint64_t fd;"),
    ("syscalls:sys_exit_read", PERF_FIELDS + "uint32_t nr; uint64_t ret;"),
    ("raw_syscalls:sys_enter", PERF_FIELDS + "uint64_t id;"),
    ("raw_syscalls:sys_exit", PERF_FIELDS + "uint64_t id; uint64_t ret;"),
    ("irq:irq_handler_entry", PERF_FIELDS + "uint32_t irq; string name;"),
    ("irq:irq_handler_exit", PERF_FIELDS + "uint32_t irq; uint32_t ret;"),
]


def read(folder: Path, declared: list[tuple[str, str]], events: list[Any]) -> Imported:
    """A trace of CPU 3: time, the event's number, and its fields (texts, or value and bits)."""
    bits = Bits().integer(3, 32)
    for time, number, fields in events:
        bits.integer(number, 8).integer(time, 64)
        for field in fields:
            _ = bits.text(field) if isinstance(field, str) else bits.integer(*field)
    write_trace(folder, declare_events(declared, context=CONTEXT), bits.bytes())
    return ctf.read(Source(folder, folder.name), ImportOptions())


def rows(frame: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return frame.select(columns).rows()


def test_calls_whose_ends_have_no_name(tmp_path: Path) -> None:
    """Thread 7 reads, is preempted by 8, which writes meanwhile, and comes back to the end."""
    story = [
        (10, 0, ["swapper", (0, 32), (0, 64), "t7", (7, 32)]),
        (20, 1, [(5, 32)]),
        (40, 0, ["t7", (7, 32), (1, 64), "t8", (8, 32)]),
        (50, 2, [(1, 32)]),
        (60, 3, [(64, 64)]),
        (70, 0, ["t8", (8, 32), (0, 64), "t7", (7, 32)]),
        (90, 3, [(512, 64)]),
    ]
    calls = read(tmp_path / "k", OLD, story).tables["host_ops"].sort("start_ns")
    assert rows(calls, "start_ns", "end_ns", "tid", "layer", "name", "return_value") == [
        (1020, 1090, 7, "os", "read", 512),
        (1050, 1060, 8, "os", "write", 64),
    ]


def test_events_of_perf(tmp_path: Path) -> None:
    seven, eight = [(7, 32), (70, 32)], [(8, 32), (80, 32)]
    story = [
        (10, 0, [(0, 32), (0, 32), "swapper", (0, 32), (0, 64), "t7", (7, 32)]),
        (20, 2, [*seven, (0, 32), (5, 64)]),
        (25, 6, [*seven, (19, 32), "nvme"]),
        (29, 7, [*seven, (19, 32), (1, 32)]),
        (30, 3, [*seven, (0, 32), (512, 64)]),
        (40, 0, [*seven, "t7", (7, 32), (1, 64), "t8", (8, 32)]),
        (50, 1, [*eight, "t7", (7, 32), (3, 32)]),
        (60, 4, [*eight, (39, 64)]),
        (65, 5, [*eight, (39, 64), (80, 64)]),
    ]
    tables = read(tmp_path / "p", PERF, story).tables
    assert rows(tables["sched_events"], "time_ns", "cpu", "tid", "switched_in", "state") == [
        (1010, 3, 7, True, None),
        (1040, 3, 7, False, "S"),
        (1040, 3, 8, True, None),
    ]
    assert rows(tables["wakeups"], "time_ns", "tid", "woken_tid", "kind") == [
        (1050, 8, 7, "sched_wakeup")
    ]
    assert rows(tables["interrupts"], "start_ns", "end_ns", "tid", "number", "name") == [
        (1025, 1029, 7, 19, "nvme")
    ]
    calls = tables["host_ops"].sort("start_ns")
    assert rows(calls, "start_ns", "end_ns", "pid", "tid", "name", "return_value") == [
        (1020, 1030, 70, 7, "read", 512),
        (1060, 1065, 80, 8, "39", 80),
    ]
    assert rows(tables["threads"], "tid", "thread_name") == [(7, "t7"), (8, "t8")]
