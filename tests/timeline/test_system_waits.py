"""Idle time by what the operating system did with the launching thread: exact, and its alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sightline
from sightline.core.model.run import Run
from sightline.flames.stacks import Stacks
from sightline.flames.timeline import stack_idle_time
from sightline.timeline.system_waits import cut_to_spans
from support.campaigns import examples
from support.kernel_traces import BLOCK, RUNNABLE, SLEEPS, UNINTERRUPTIBLE, KernelTrace
from support.rules import answers
from support.traces import TID, call, kernel, launched, op, write

US, MS = 1000, 1_000_000
TICK = 5 * US
TIMER = 1  # a vector of softirqs (include/linux/interrupt.h)
RULES = {
    "preempted-launch-thread": "preempted",
    "cpu-oversubscribed": "cpu_oversubscribed",
    "blocked-on-io": "blocked_io",
    "futex-contention": "lock_wait",
    "irq-noise": "interrupted",
}
# Kernels of 1 ms each 2 ms, but none from 20 to 60 ms: each launched 10 µs before it starts.
STARTS = [*range(10_000, 20_000, 2_000), *range(60_000, 72_000, 2_000)]
PROGRAM = [e for at in STARTS for e in launched(at - 10, kernel("gemm", at, 1000))]
DEEDS = {
    "allocation": lambda at, n: call("cudaMalloc", at, n),
    "data_loading": lambda at, n: op("DataLoader", at, n),
    "host_sync": lambda at, n: call("cudaDeviceSynchronize", at, n),
}

# What the thread does one after another, in 0.1 ms: away (or not), then it runs.
states = st.lists(
    st.tuples(
        st.sampled_from(["preempted", "interrupted", "lock_wait", "blocked_io", "sleeps"]),
        st.integers(1, 200),
        st.integers(1, 60),
    ),
    max_size=12,
)
deeds = st.lists(
    st.tuples(st.sampled_from(sorted(DEEDS)), st.integers(200, 580), st.integers(1, 80)),
    max_size=5,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tmp_path_factory.mktemp("states")


def play(trace: KernelTrace, steps: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """The thread's states from 5 ms on, on core 0, and the same as (state, start, end) in ns.

    Thread 5 runs on core 1 all the time, so more threads than cores want to run when it is ready.
    """
    trace.switch(0, 0, 0, RUNNABLE, TID).switch(0, 1, 0, RUNNABLE, 5)
    at, played = 5 * MS, []
    for state, length, runs in steps:
        end = at + length * 100 * US
        if state == "preempted":
            trace.switch(at, 0, TID, RUNNABLE, 812).switch(end, 0, 812, SLEEPS, TID)
        elif state == "interrupted":
            trace.softirq(at, end, 0, TIMER)
        else:
            if state == "lock_wait":
                trace.futex(at - US, 0, end + US, 0, 0xBEEF)
            if state == "blocked_io":
                trace.read(at - US, end + US, 0, 512)
                trace.softirq(end - 10 * US, end + 10 * US, 1, BLOCK)
            slept = UNINTERRUPTIBLE if state == "blocked_io" else SLEEPS
            trace.switch(at, 0, TID, slept, 0).wake(end, 1, TID)
            trace.switch(end, 0, 0, RUNNABLE, TID)
        played.append((state, at, end))
        at = end + runs * 100 * US
    trace.switch(max(at, 80 * MS), 0, TID, SLEEPS, 0)
    return played


def place(wanted: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Deeds one after another, before the launch at 59.99 ms, in µs."""
    placed: list[tuple[str, int, int]] = []
    for name, start, length in sorted(wanted, key=lambda deed: deed[1]):
        start_us, free = start * 100, placed[-1][2] if placed else 0
        if start_us > free:
            placed.append((name, start_us, min(start_us + length * 100, 59_900)))
    return [deed for deed in placed if deed[1] < deed[2]]


def count(
    gap: tuple[int, int],
    played: list[tuple[str, int, int]],
    done: list[tuple[str, int, int]],
) -> dict[str, int]:
    """By plain counting of ticks, what the gap goes to: no core, a deed, a sleep, or none of it."""
    found = dict.fromkeys(("no_core", "interrupted", "deed", "blocked_io", "lock_wait", "rest"), 0)
    for t in range(*gap, TICK):
        inside = [state for state, start, end in played if start <= t < end]
        late = t < gap[1] - TICK  # the launch call returns 5 µs before its kernel starts
        if late and "preempted" in inside:
            found["no_core"] += TICK
        elif late and "interrupted" in inside:
            found["interrupted"] += TICK
        elif any(start * US <= t < end * US for _, start, end in done):
            found["deed"] += TICK
        elif late and inside and inside[0] in found:
            found[inside[0]] += TICK
        else:
            found["rest"] += TICK
    return found


def assert_conserved(run: Run) -> None:
    """Parts sum to each gap, and a finding costs what is its rule's: no more, and no less."""
    key = ["rank", "device_id", "start_ns", "end_ns"]
    for question, length in (("idle_parts", "part_ns"), ("idle_rules", "duration_ns")):
        parts = run.ask(question)
        assert parts.select((pl.col(length) > 0).all()).item()
        summed = parts.group_by(key).agg(pl.col(length).sum())
        assert (summed["end_ns"] - summed["start_ns"]).equals(summed[length])
        assert summed[length].sum() == run.ask("breakdown").get_column("idle_ns").sum()
    rules = run.ask("idle_rules")
    for rule in RULES:
        mine = rules.filter(rule=rule)
        for found in answers(run, rule):
            if found.is_remark:
                continue
            assert found.cost_ns == mine.get_column("duration_ns").sum()
            each = mine.group_by("rank", "device_id").agg(pl.col("duration_ns").sum())
            assert found.gain_ns == each.get_column("duration_ns").max()


@given(states, deeds)
@example(
    [("preempted", 81, 30), ("preempted", 173, 1), ("lock_wait", 66, 1)], [("allocation", 335, 35)]
)
@settings(max_examples=examples(80))
def test_random_states(folder: Path, steps: Any, wanted: Any) -> None:
    trace = KernelTrace()
    played, done = play(trace, steps), place(wanted)
    calls = [DEEDS[name](start, end - start) for name, start, end in done]
    system = trace.write(folder / "kernel", offset=0)
    run = sightline.open(str(write(folder, [*PROGRAM, *calls])), str(system))
    assert_conserved(run)
    parts = run.ask("idle_parts")
    for start, end in run.ask("idle_gaps").select("start_ns", "end_ns").rows():
        got = dict(parts.filter(start_ns=start).select("cause", "part_ns").rows())
        want = count((start, end), played, done)
        assert got.get("preempted", 0) + got.get("cpu_oversubscribed", 0) == want["no_core"]
        for cause in ("interrupted", "blocked_io", "lock_wait"):
            assert got.get(cause, 0) == want[cause]
        # What a deed holds up takes the thread's usual pace behind it, too.
        assert sum(got.get(deed, 0) for deed in DEEDS) >= want["deed"]


pieces = st.lists(st.tuples(st.integers(1, 2), st.integers(0, 40), st.integers(1, 15)), max_size=8)


@given(pieces, pieces)
@settings(max_examples=examples(400))
def test_intervals_cut_to_spans(intervals: Any, spans: Any) -> None:
    """The same moments as by counting, each interval's own, and each piece inside of it."""
    names = {"tid": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64}
    asked, inside = (
        pl.DataFrame([(tid, at, at + n) for tid, at, n in each], schema=names, orient="row")
        for each in (intervals, spans)
    )
    open_ = {(tid, t) for tid, at, n in spans for t in range(at, at + n)}
    cut = cut_to_spans(asked.with_row_index("which"), inside, ["tid"])
    got = sorted(
        (i, t) for i, a, b in cut.select("which", *list(names)[1:]).rows() for t in range(a, b)
    )
    assert got == [
        (i, t)
        for i, (tid, at, n) in enumerate(intervals)
        for t in range(at, at + n)
        if (tid, t) in open_
    ]
    assert cut.get_column("length").sum() == len(got)
    assert (cut.get_column("length") > 0).all()


@pytest.mark.campaign
@given(deeds)
@settings(max_examples=examples(40))
def test_a_system_in_which_nothing_waits_changes_nothing(folder: Path, wanted: Any) -> None:
    calls = [DEEDS[name](start, end - start) for name, start, end in place(wanted)]
    gpu = str(write(folder, [*PROGRAM, *calls]))
    trace = KernelTrace()
    play(trace, [])
    alone = sightline.open(gpu)
    run = sightline.open(gpu, str(trace.write(folder / "kernel", offset=0)))
    for question in ("idle_parts", "idle_rules", "launch_pressure", "breakdown"):
        assert run.ask(question).equals(alone.ask(question))
    late, before = ([(f.cost_ns, f.gain_ns) for f in answers(r, "host-late")] for r in (run, alone))
    assert late == before


def test_system_calls_do_not_hide_what_the_program_was_in(tmp_path: Path) -> None:
    """perf knows the process, too: a call that has returned nests in none of its ranges."""
    lines = [
        (5, "sched:sched_switch: swapper/0:0 [120] R ==> python:101 [120]", "0/0"),
        (30, "syscalls:sys_enter_read: fd: 0x00000005", "100/101"),
        (31, "syscalls:sys_exit_read: 0x200", "100/101"),
        (80, "sched:sched_switch: python:101 [120] S ==> swapper/0:0 [120]", "100/101"),
    ]
    text = "".join(f" x {ids} [000] 0.{ms:03}000000: {what}\n" for ms, what, ids in lines)
    (tmp_path / "run.perf-trace.txt").write_text(text)
    gpu = str(write(tmp_path, [*PROGRAM, op("work", 25_000, 30_000)]))
    run = sightline.open(gpu, str(tmp_path / "run.perf-trace.txt"))
    calls = run.table("host_ops").filter(name="read")
    assert calls.select("rank", "pid", "tid").rows() == [(0, 100, TID)]
    parts = run.ask("idle_parts").filter(start_ns=19 * MS)
    assert parts.select("cause", "host_op").rows() == [("host_late", "work")]
    alone = stack_idle_time(sightline.open(gpu))
    assert list_frames(stack_idle_time(run)) == list_frames(alone)


def list_frames(stacks: Stacks) -> list[tuple[list[str], int]]:
    """The names on each stack, and its idle time."""
    names = stacks.frames.sort("frame_id").get_column("name").to_list()
    rows = stacks.rows.select("frames", "gpu_idle_ns").rows()
    return sorted(([names[frame] for frame in frames], ns) for frames, ns in rows)


@pytest.mark.parametrize(
    ("state", "name", "parts"),
    [
        ("preempted", "gemm", {"preempted": 7000, "slow_launch": 1010}),
        ("preempted", "new", {"preempted": 7000, "code_loading": 1010}),
        ("lock_wait", "gemm", {"lock_wait": 7000, "slow_launch": 1010}),
        ("lock_wait", "new", {"code_loading": 8010}),
    ],
)
def test_inside_of_a_slow_launch(
    tmp_path: Path, state: str, name: str, parts: dict[str, int]
) -> None:
    """From 20 to 27 ms, in a call from 19.5 to 27.5 ms; first launches load code."""
    trace = KernelTrace().switch(0, 0, 0, RUNNABLE, TID).switch(0, 1, 0, RUNNABLE, 5)
    if state == "preempted":
        trace.switch(1 * MS, 1, 5, SLEEPS, 0)
        trace.switch(20 * MS, 0, TID, RUNNABLE, 812).switch(27 * MS, 0, 812, SLEEPS, TID)
    else:
        trace.futex(19_900 * US, 0, 27_100 * US, 0, 0xBEEF)
        trace.switch(20 * MS, 0, TID, SLEEPS, 0).wake(27 * MS, 1, TID)
        trace.switch(27 * MS, 0, 0, RUNNABLE, TID)
    trace.switch(80 * MS, 0, TID, SLEEPS, 0)
    slow = launched(19_500, kernel(name, 27_510, 1000), dur=8000)
    early = [e for at in STARTS[:5] for e in launched(at - 10, kernel("gemm", at, 1000))]
    gpu = write(tmp_path, [*early, *slow])
    run = sightline.open(str(gpu), str(trace.write(tmp_path / "kernel", offset=0)))
    found = run.ask("idle_parts").filter(start_ns=19 * MS).select("cause", "part_ns").rows()
    assert dict(found) == {"host_late": 500 * US, **{k: n * US for k, n in parts.items()}}
    assert_conserved(run)


def write_rank(folder: Path, rank: int) -> str:
    """The program of a rank with the threads 200 + rank, which launches, and 300 + rank."""
    events = [{**e, "tid": 200 + rank} if e.get("cat") == "cuda_runtime" else e for e in PROGRAM]
    other = {**op("aten::mm", 11_000, 5), "tid": 300 + rank}
    header = {"distributedInfo": {"rank": rank}}
    return str(write(folder, [*events, other], f"trace{rank}.json", **header))


def write_host(folder: Path, name: str, threads: list[int], away: list[int]) -> str:
    """A trace of a host whose threads run on a core each; those `away` have none 21 to 59 ms.

    Two more cores are free after a while.
    """
    trace = KernelTrace()
    for core, tid in ((98, 5), (99, 6)):
        trace.switch(0, core, 0, RUNNABLE, tid).switch(1 * MS, core, tid, SLEEPS, 0)
    for core, tid in enumerate(threads):
        trace.switch(0, core, 0, RUNNABLE, tid)
        if tid in away:
            trace.switch(21 * MS, core, tid, RUNNABLE, 812)
            trace.switch(59 * MS, core, 812, SLEEPS, tid)
        trace.switch(80 * MS, core, tid, SLEEPS, 0)
    return str(trace.write(folder / name, offset=0))


def list_lost(run: Run) -> dict[int, int]:
    """What each rank lost, by the parts of its gaps, all of them the finding's, too."""
    assert_conserved(run)
    parts = run.ask("idle_parts").filter(pl.col("cause").is_in([*RULES.values()]))
    assert set(parts.get_column("cause")) <= {"preempted"}
    (found,) = answers(run, "preempted-launch-thread")
    lost = parts.group_by("rank").agg(pl.col("part_ns").sum()).sort("rank").rows()
    assert found.where["ranks"] == [rank for rank, _ in lost]
    return dict(lost)


@pytest.mark.parametrize("is_first", [True, False])
def test_two_ranks_of_one_host(tmp_path: Path, is_first: bool) -> None:
    """Only the second one's thread is away: the trace goes by the first one's rank all the same."""
    ranks = [write_rank(tmp_path, rank) for rank in range(2)]
    host = write_host(tmp_path, "host", [200, 201, 300, 301], [201])
    run = sightline.open(*([host, *ranks] if is_first else [*ranks, host]))
    assert run.table("recordings").get_column("rank").n_unique() == 2
    assert list_lost(run) == {1: 38 * MS}


def test_ranks_of_several_hosts(tmp_path: Path) -> None:
    """Two hosts with two ranks each, and on the second a thread with a number of the first's."""
    ranks = [write_rank(tmp_path, rank) for rank in range(4)]
    hosts = [
        write_host(tmp_path, "a", [200, 201, 300, 301], [200]),
        write_host(tmp_path, "b", [201, 202, 203, 302, 303], [201, 203]),
    ]
    run = sightline.open(*hosts, *ranks)
    sources = run.table("recordings").filter(rank_source="host")
    assert sources.get_column("rank").to_list() == [0, 2]
    assert list_lost(run) == {0: 38 * MS, 3: 38 * MS}


def test_two_traces_of_one_host_are_not_twice_the_threads(tmp_path: Path) -> None:
    """Each has three threads that want to run, and four cores: the same ones."""
    hosts = [write_host(tmp_path, name, [200, 7], [200]) for name in ("a", "b")]
    run = sightline.open(write_rank(tmp_path, 0), *hosts)
    assert list_lost(run) == {0: 38 * MS}
