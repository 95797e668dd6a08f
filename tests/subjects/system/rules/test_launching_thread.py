"""The operating system and the GPU in one run: a kernel's trace and a GPU trace on one clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.answer.price_words import write_price
from sightline.core.model.run import Run
from support.kernel_traces import BLOCK, RUNNABLE, SLEEPS, UNINTERRUPTIBLE, KernelTrace
from support.rules import answers, assert_abstains, assert_silent, assert_speaks
from support.traces import TID, call, kernel, launched, write
from synth_nsys import Export

MS, US = 1_000_000, 1000
RULES = (
    "preempted-launch-thread",
    "cpu-oversubscribed",
    "blocked-on-io",
    "futex-contention",
    "irq-noise",
    "thread-migration",
)


def both(folder: Path, trace: KernelTrace, *calls: Any) -> Run:
    """Kernels of 1 ms each 2 ms from 10 ms on, but none from 20 to 60 ms; times in ns.

    Each is launched 10 µs before it starts. The window is 10 to 71 ms.
    """
    starts = [*range(10_000, 20_000, 2_000), *range(60_000, 72_000, 2_000)]
    events = [e for at in starts for e in launched(at - 10, kernel("gemm", at, 1000))]
    gpu = write(folder, [*events, *calls])
    return sightline.open(str(gpu), str(trace.write(folder / "kernel", offset=0)))


def running(trace: KernelTrace) -> KernelTrace:
    """The launching thread runs on core 0 from the start, and a thread of core 1 beside it."""
    return trace.switch(0, 0, 0, RUNNABLE, TID).switch(0, 1, 0, RUNNABLE, 5)


def test_preempted(tmp_path: Path) -> None:
    """Without a core from 21 to 59 ms: for 30 ms t812 has it, for 8 ms t813."""
    trace = running(KernelTrace())
    trace.switch(1 * MS, 1, 5, SLEEPS, 0)
    trace.switch(21 * MS, 0, TID, RUNNABLE, 812).switch(51 * MS, 0, 812, SLEEPS, 813)
    trace.switch(59 * MS, 0, 813, SLEEPS, TID)
    found = assert_speaks(
        both(tmp_path, trace),
        "preempted-launch-thread",
        cost_ns=38 * MS,
        gain_ns=38 * MS,
        evidence=[f"t{TID} ({TID})", "by t812 (812)", "38.00 ms preempted by t812 (812)"],
        fix="taskset",
        severity="critical",
        confidence="high",
    )
    assert found.cost_pct == pytest.approx(100 * 38 / 61)
    assert found.where["time_ranges"][0] == [19 * MS, 59_995 * US]
    for rule in set(RULES) - {"preempted-launch-thread"}:
        assert_silent(both(tmp_path, trace), rule)


@pytest.mark.parametrize(("until_ms", "rest"), [(29, "host-late"), (59, "launch-bound")])
def test_the_host_is_late_only_where_the_system_does_not_say_why(
    tmp_path: Path, until_ms: int, rest: str
) -> None:
    """Of the 41 ms from 19 to 60 it had no core from 21 on: the rest is the program's own."""
    trace = running(KernelTrace()).switch(1 * MS, 1, 5, SLEEPS, 0)
    trace.switch(21 * MS, 0, TID, RUNNABLE, 812).switch(until_ms * MS, 0, 812, SLEEPS, TID)
    run = both(tmp_path, trace)
    alone = sightline.open(str(tmp_path / "trace.json"))
    away = (until_ms - 21) * MS
    gap = run.ask("idle_rules").filter(start_ns=19 * MS)
    assert dict(gap.select("rule", "duration_ns").rows()) == {
        "preempted-launch-thread": away,
        rest: 41 * MS - away,
    }
    (found,) = answers(run, "preempted-launch-thread")
    assert found.cost_ns == away
    late, whole = ((*answers(r, "host-late"), None)[0] for r in (run, alone))
    assert whole is not None
    if late is None:
        # Whatever the launches take: 38 ms without a core, 6 kernels and a call behind them.
        (bound,) = answers(run, rest)
        assert bound.gain_ns == 61 * MS - (38 * MS + 6 * MS + 5 * US)
    else:
        assert late.direct_ns == (whole.direct_ns or 0) - away
        assert "asleep" in late.cause
        assert "not scheduled" in whole.cause
        assert (late.gain_ns or 0) < (whole.gain_ns or 0)


def test_a_wait_for_the_gpu_is_not_the_systems(tmp_path: Path) -> None:
    """The thread sleeps in a futex, inside of a call that waits for the device: sync-in-step."""
    trace = running(KernelTrace())
    trace.futex(20 * MS, 0, 59_100 * US, 0, 0xBEEF).switch(21 * MS, 0, TID, SLEEPS, 0)
    trace.add(59 * MS, 1, "sched_waking", "t", (TID, 32), (0, 32))
    trace.switch(59_020 * US, 0, 0, RUNNABLE, TID)
    waits = call("cudaDeviceSynchronize", 19_000, 40_500, 9_000)
    run = both(tmp_path, trace, waits)
    found = run.ask("idle_parts").filter(start_ns=19 * MS)
    assert dict(found.select("cause", "part_ns").rows()) == {
        "preempted": 20 * US,  # woken, and not yet on its core
        "host_sync": 40_480 * US,
        "host_late": 500 * US,
    }
    assert_silent(run, "futex-contention")


def test_preempted_while_the_gpu_has_work(tmp_path: Path) -> None:
    """From 10.1 to 10.9 ms of each kernel's millisecond: nothing waits for it."""
    trace = running(KernelTrace())
    for at in (10, 12, 14, 16):
        trace.switch(at * MS + 100 * US, 0, TID, RUNNABLE, 812)
        trace.switch(at * MS + 900 * US, 0, 812, SLEEPS, TID)
    assert_silent(both(tmp_path, trace), "preempted-launch-thread")


def test_more_threads_than_cores(tmp_path: Path) -> None:
    """As above, while 5 runs on the other core all the time, and 6 waits for one, too."""
    trace = running(KernelTrace())
    trace.switch(20 * MS, 1, 5, RUNNABLE, 6)
    trace.switch(21 * MS, 0, TID, RUNNABLE, 812).switch(59 * MS, 0, 812, SLEEPS, TID)
    run = both(tmp_path, trace)
    assert_speaks(
        run,
        "cpu-oversubscribed",
        cost_ns=38 * MS,
        gain_ns=38 * MS,
        evidence=["2 CPU cores", "up to 4 threads"],
        fix="OMP_NUM_THREADS",
    )
    assert_silent(run, "preempted-launch-thread")


def test_waits_for_a_disk(tmp_path: Path) -> None:
    """It sleeps in read from 21 to 59 ms, until the disk's interrupt wakes it."""
    trace = running(KernelTrace())
    trace.read(20 * MS, 59_100 * US, 0, 512).switch(21 * MS, 0, TID, UNINTERRUPTIBLE, 0)
    trace.softirq(58_990 * US, 59_010 * US, 1, BLOCK).add(
        59 * MS, 1, "sched_waking", "t", (TID, 32), (0, 32)
    )
    trace.switch(59_020 * US, 0, 0, RUNNABLE, TID)
    run = both(tmp_path, trace)
    assert_speaks(
        run,
        "blocked-on-io",
        cost_ns=38 * MS,
        gain_ns=38 * MS,
        evidence=["waits for the disk in read", "ended by BLOCK"],
        fix="read ahead",
        confidence="high",
    )
    assert_silent(run, "futex-contention")


def test_waits_for_a_lock(tmp_path: Path) -> None:
    trace = running(KernelTrace())
    trace.futex(20 * MS, 0, 59_100 * US, 0, 0xBEEF).switch(21 * MS, 0, TID, SLEEPS, 0)
    trace.add(59 * MS, 1, "sched_waking", "t", (TID, 32), (0, 32))
    trace.switch(59_020 * US, 0, 0, RUNNABLE, TID)
    run = both(tmp_path, trace)
    found = assert_speaks(
        run,
        "futex-contention",
        cost_ns=38 * MS,
        gain_ns=38 * MS,
        evidence=["until t5 (5) releases a lock", "the futex at 0xbeef"],
        fix="t5 (5)",
        confidence="medium",
    )
    assert found.gain_ns == found.cost_ns
    assert_silent(run, "blocked-on-io")


def test_interrupts(tmp_path: Path) -> None:
    """An interrupt of 4 ms on its core in the gap, and one of 4 ms on another core."""
    trace = running(KernelTrace())
    trace.interrupt(30 * MS, 34 * MS, 0, 19, "mlx5").interrupt(40 * MS, 44 * MS, 1, 20, "nvme")
    assert_speaks(
        both(tmp_path, trace),
        "irq-noise",
        cost_ns=4 * MS,
        gain_ns=4 * MS,
        evidence=["4.000 ms in 1 interrupt of CPU core 0", "irq mlx5"],
        fix="smp_affinity",
    )


def test_many_short_interrupts_are_a_remark(tmp_path: Path) -> None:
    """2 % of the core, 1.2 % of the window in gaps."""
    trace = running(KernelTrace())
    for at in range(5 * MS, 65 * MS, MS):
        trace.interrupt(at, at + 20 * US, 0, 19, "mlx5")
    trace.switch(71 * MS, 0, TID, SLEEPS, 0)
    (found,) = answers(both(tmp_path, trace), "irq-noise")
    assert found.is_remark
    assert "1.7 %" in found.summary


def test_moves_between_cores(tmp_path: Path) -> None:
    """Every 4 ms to the other core: 0.5 ms a move would be 12 % of its time."""
    trace = KernelTrace().switch(0, 0, 0, RUNNABLE, TID)
    for i in range(1, 18):
        trace.switch(4 * i * MS, (i - 1) % 2, TID, RUNNABLE, 0)
        trace.switch(4 * i * MS, i % 2, 0, RUNNABLE, TID)
    (found,) = answers(both(tmp_path, trace), "thread-migration")
    assert found.is_remark
    assert "17 times" in found.summary


def test_without_a_trace_of_the_system(tmp_path: Path) -> None:
    events = [e for at in range(10, 400, 20) for e in launched(at - 9, kernel("k", at, 2))]
    run = sightline.open(str(write(tmp_path, events)))
    for rule in RULES:
        assert_silent(run, rule)


def test_a_trace_of_the_kernel_alone(tmp_path: Path) -> None:
    """The thread that ran longest: 60 ms of its 100 ms another one had its core."""
    trace = KernelTrace().switch(0, 0, 0, RUNNABLE, 7)
    trace.switch(41 * MS, 0, 7, RUNNABLE, 8).switch(71 * MS, 0, 8, RUNNABLE, 9)
    trace.switch(100 * MS, 0, 9, SLEEPS, 7).switch(101 * MS, 0, 7, SLEEPS, 0)
    run = sightline.open(str(trace.write(tmp_path / "kernel", offset=0)))
    found = assert_speaks(
        run,
        "cpu-oversubscribed",
        cost_ns=59 * MS,
        gain_ns=59 * MS,
        evidence=["t7 (7) waits for one of 1 CPU cores"],
        fix="OMP_NUM_THREADS",
    )
    assert found.cost_pct == pytest.approx(100 * 59 / 101)
    assert write_price(found.to_dict(), [])[0] == "costs 59.00 ms (58.4 % of the thread's time)"


def test_nsight_systems_does_not_say_why_a_thread_left_its_core(tmp_path: Path) -> None:
    export = Export("3.25.0")
    export.add("TARGET_INFO_GPU", id=0, name="NVIDIA H100", smCount=132)
    for number, at in enumerate((10 * MS, 60 * MS)):
        export.api("cudaLaunchKernel", at - 9 * US, at - 4 * US, number, 7, 7)
        export.kernel("gemm", at, at + 2 * MS, number, 7, 0)
    for at, is_in in ((0, 1), (13 * MS, 0), (59 * MS, 1)):
        export.add(
            "SCHED_EVENTS",
            start=at,
            cpu=0,
            isSchedIn=is_in,
            globalTid=(7 << 24) | 7,
            threadState=0,
            threadBlock=0,
        )
    run = sightline.open(str(export.write(tmp_path / "run.sqlite")))
    assert_abstains(run, "preempted-launch-thread", "record the scheduler with LTTng")
