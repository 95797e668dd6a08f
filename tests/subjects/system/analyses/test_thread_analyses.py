"""What threads did, of kernel traces that are written bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.run import Run
from support.kernel_traces import BLOCK, NET_RX, RUNNABLE, SLEEPS, UNINTERRUPTIBLE, KernelTrace

# Thread 7 runs on core 0 from 0, reads from 10 on and sleeps for the disk from 20 to 60; runs on
# core 1 from 70, waits for a lock of thread 8 from 100 to 150, and runs again from 155 to 200, when
# thread 9 preempts it until 230. Thread 8 runs on core 0 from 20 on, and sleeps from 110 to 140
# until a timer wakes it.
STORY = (
    KernelTrace()
    .switch(0, 0, 0, RUNNABLE, 7)
    .add(10, 0, "syscall_entry_read", (5, 32))
    .request(15, 59, 0, 8)
    .switch(20, 0, 7, UNINTERRUPTIBLE, 8)
    .softirq(58, 62, 0, BLOCK)
    .wake(60, 0, 7)
    .switch(70, 1, 0, RUNNABLE, 7)
    .add(80, 1, "syscall_exit_read", (512, 64))
    .futex(95, 1, 160, 1, 0xBEEF)
    .switch(100, 1, 7, SLEEPS, 0)
    .switch(110, 0, 8, SLEEPS, 0)
    .timer(138, 142, 0)
    .wake(140, 0, 8)
    .switch(145, 0, 0, RUNNABLE, 8)
    .wake(150, 0, 7)
    .switch(155, 1, 0, RUNNABLE, 7)
    .switch(200, 1, 7, RUNNABLE, 9)
    .switch(230, 1, 9, SLEEPS, 7)
    .switch(240, 1, 7, SLEEPS, 0)
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return sightline.open(STORY.write(tmp_path / "kernel", offset=0))


def rows(run: Run, analysis: str, *columns: str, **params: Any) -> list[tuple[Any, ...]]:
    return run.ask(analysis, **params).select(columns).rows()


def test_thread_critical_path(run: Run) -> None:
    path = rows(
        run, "thread_critical_path", "start_ns", "end_ns", "tid", "state", "call", "depth", tid=7
    )
    assert path == [
        (0, 20, 7, "running", None, 0),
        (20, 60, 7, "disk", "read", 0),
        (60, 70, 7, "woken", "read", 0),
        (70, 100, 7, "running", "read", 0),
        (100, 110, 8, "running", None, 1),
        (110, 140, 8, "timer", None, 1),
        (140, 145, 8, "woken", None, 1),
        (145, 150, 8, "running", None, 1),
        (150, 155, 7, "woken", "futex", 0),
        (155, 200, 7, "running", "futex", 0),
        (200, 230, 7, "preempted", None, 0),
        (230, 240, 7, "running", None, 0),
    ]


def test_sleep_causes(run: Run) -> None:
    found = rows(run, "sleep_causes", "tid", "call", "source", "count", "total_ns", "woken_by")
    assert found == [
        (7, "futex", "thread", 1, 50, "t8 (8)"),
        (7, "read", "disk", 1, 40, "BLOCK"),
        (8, None, "timer", 1, 30, "hrtimer"),
        (9, None, "unknown", 1, 10, None),
    ]


def test_calls_locks_and_disks(run: Run) -> None:
    calls = rows(run, "syscall_times", "call", "count", "total_ns", "asleep_ns", "errors")
    assert calls == [("read", 1, 70, 40, 0), ("futex", 1, 65, 50, 0)]
    locks = rows(run, "lock_waits", "lock", "total_ns", "waiters", "waited_most", "held_by")
    assert locks == [("0xbeef", 50, 1, "t7 (7)", "t8 (8)")]
    disks = rows(
        run, "disk_times", "disk", "operation", "mean_ns", "busy_ns", "transferred_bytes", "most_by"
    )
    assert disks == [("8:0", "read", 44, 44, 4096, "t7 (7)")]


def test_cores_and_waits_for_them(run: Run) -> None:
    latency = rows(run, "wakeup_latency", "tid", "count", "max_ns", "longest_ns")
    assert latency == [(7, 2, 10, 60), (8, 1, 5, 140)]
    moves = rows(run, "thread_migrations", "tid", "runs", "migrations", "cpus", "running_ns")
    assert moves == [(7, 4, 1, 2, 105), (8, 2, 0, 1, 185), (9, 1, 0, 1, 30)]
    cores = rows(run, "cpu_times", "cpu", "busy_ns", "interrupt_ns", "threads", "most_by")
    assert cores == [(0, 205, 8, 2, "t8 (8)"), (1, 115, 0, 2, "t7 (7)")]
    queue = rows(run, "run_queue", "runnable", "cpus", "is_oversubscribed", "total_ns")
    assert queue == [
        (3, 2, True, 30),
        (2, 2, False, 100),
        (1, 2, False, 80),
        (0, 2, False, 30),
    ]
    assert sum(row[3] for row in queue) == 240


def test_packets_and_idle_cores(tmp_path: Path) -> None:
    """A packet wakes 7 at 50; an interrupt that was not recorded wakes it from idle at 90."""
    trace = (
        KernelTrace()
        .switch(0, 0, 0, RUNNABLE, 7)
        .switch(20, 0, 7, SLEEPS, 0)
        .softirq(48, 52, 0, NET_RX)
        .wake(50, 0, 7)
        .switch(60, 0, 0, RUNNABLE, 7)
        .switch(70, 0, 7, SLEEPS, 0)
        .wake(90, 0, 7)
        .switch(95, 0, 0, RUNNABLE, 7)
        .switch(99, 0, 7, SLEEPS, 0)
    )
    run = sightline.open(trace.write(tmp_path / "kernel", offset=0))
    assert rows(run, "sleep_causes", "source", "total_ns", "woken_by")[:2] == [
        ("network", 30, "NET_RX"),
        ("interrupt", 20, None),
    ]


def test_a_thread_that_another_made(tmp_path: Path) -> None:
    """7 makes 8 at 10 and sleeps at 20; 8 runs from 30 on and wakes 7 at 50."""
    trace = (
        KernelTrace()
        .switch(0, 0, 0, RUNNABLE, 7)
        .wake(10, 0, 8, is_new=True)
        .switch(5, 1, 0, RUNNABLE, 9)
        .switch(20, 0, 7, SLEEPS, 0)
        .switch(30, 1, 9, RUNNABLE, 8)
        .wake(50, 1, 7)
        .switch(55, 0, 0, RUNNABLE, 7)
        .switch(60, 0, 7, SLEEPS, 0)
    )
    run = sightline.open(trace.write(tmp_path / "kernel", offset=0))
    path = rows(run, "thread_critical_path", "start_ns", "end_ns", "tid", "state", tid=7)
    assert path[1:4] == [(20, 30, 8, "unknown"), (30, 50, 8, "running"), (50, 55, 7, "woken")]
