"""Rules that ask what the operating system counted: each speaks for its cause alone."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sightline.core.model import usage_metrics as m
from sightline.core.model.run import Run
from sightline.subjects.host.rules._there import find_there
from support.rules import answers, assert_silent, assert_speaks
from support.stepped import MS, write_program

STEP = 10 * MS
# A step that computes for 6 ms and is in no operator for 4 ms.
WORK = [("aten::mm", 0, 3 * MS), ("aten::mm", 3 * MS, 6 * MS)]
BUSY = {m.THREAD_CPU: STEP, m.THREAD_QUEUED: 0, m.PROCESS_CPU: STEP, m.KERNEL_CPU: 0}
RULES = (
    "host-waiting", "host-preempted", "host-threads", "host-page-faults", "host-copies",
    "host-compiling", "host-growing", "host-python",
)  # fmt: skip


def program(tmp_path: Path, rises: dict[str, int], **more: object) -> Run:
    found = {"operators": WORK, **more}
    return write_program(tmp_path / "run", step_ns=STEP, rises=BUSY | rises, **found)  # type: ignore[arg-type]


def speaking(run: Run) -> list[str]:
    return [rule for rule in RULES if answers(run, rule)]


def test_sleep_outside_of_operators_is_waiting(tmp_path: Path) -> None:
    run = program(tmp_path, {m.THREAD_CPU: 7 * MS, m.PROCESS_CPU: 7 * MS, m.BLOCK_IO: 24})
    # 3 ms of each of six steps, and no more than that is Python's.
    assert_speaks(
        run, "host-waiting", cost_ns=18 * MS, gain_ns=18 * MS,
        evidence=["30.0 %", "24 disk blocks"], fix="another thread", cost_pct=30.0,
    )  # fmt: skip
    assert_speaks(
        run, "host-python", cost_ns=6 * MS, gain_ns=6 * MS, evidence=["runs Python"], fix="tensors"
    )


def test_a_thread_that_may_wait_is_not_told_to_vectorize_alone(tmp_path: Path) -> None:
    """A server between its requests looks the same where nothing was counted."""
    run = write_program(tmp_path / "run", step_ns=STEP, rises={}, operators=WORK)
    (found,) = answers(run, "host-python")
    assert "runs Python, or waits" in found.summary and not found.gain_ns
    assert found.fix.startswith("if it runs Python: ") and "if it waits" in found.fix


def test_sleep_is_no_more_than_what_lies_outside_of_operators(tmp_path: Path) -> None:
    run = program(tmp_path, {m.THREAD_CPU: 1 * MS, m.PROCESS_CPU: 1 * MS})
    (found,) = answers(run, "host-waiting")
    assert found.cost_ns == 6 * 4 * MS
    assert_silent(run, "host-python")


def test_a_thread_without_a_cpu_is_preempted(tmp_path: Path) -> None:
    run = program(tmp_path, {m.THREAD_CPU: 8 * MS, m.THREAD_QUEUED: 2 * MS})
    assert_speaks(
        run, "host-preempted", cost_ns=12 * MS, gain_ns=12 * MS, evidence=["20.0 %"], fix="taskset"
    )
    assert_silent(run, "host-waiting")


def test_the_screens_whole_wait_for_a_cpu_is_named_beside_the_findings_part(tmp_path: Path) -> None:
    """4 of 10 ms without a CPU, of which a quarter began with waking: 30 % of 40 %."""
    rises = {m.THREAD_CPU: 5 * MS, m.THREAD_QUEUED: 4 * MS, m.THREAD_SLEEPS: 1}
    (found,) = answers(program(tmp_path, rises | {m.THREAD_PREEMPTIONS: 3}), "host-preempted")
    assert "no CPU for 30.0 % of its time" in found.summary
    assert "for 10.0 % more it has no CPU when it wakes: 40.0 % in all" in found.evidence


def test_a_wait_for_a_cpu_on_waking_ends_with_the_sleep_before_it(tmp_path: Path) -> None:
    rises = {m.THREAD_CPU: 7 * MS, m.THREAD_QUEUED: 1 * MS, m.THREAD_SLEEPS: 3}
    run = program(tmp_path, rises | {m.THREAD_PREEMPTIONS: 1})
    # Of 1 ms without a CPU a quarter began with a preemption; 2 ms of each step are sleep.
    (found,) = answers(run, "host-waiting")
    assert found.cost_ns == 6 * 2.75 * MS
    # The screen's line has "sleeps for 20.0 %" of the same steps: what is more has another name.
    assert "sleeps, or has been woken and has no CPU yet, for 27.5 % of its time" in found.summary
    assert_silent(run, "host-preempted")


def test_a_thread_that_only_sleeps_is_said_to_sleep(tmp_path: Path) -> None:
    run = program(tmp_path, {m.THREAD_CPU: 7 * MS, m.PROCESS_CPU: 7 * MS})
    (found,) = answers(run, "host-waiting")
    assert "thread sleeps for 30.0 % of its time" in found.summary


def test_too_many_threads_are_named_instead_of_others(tmp_path: Path) -> None:
    # Main: 3 ms of its own and 1 ms of each of 8 threads' equal parts; 11 ms of CPU time in all.
    run = program(
        tmp_path,
        {m.THREAD_CPU: 4 * MS, m.THREAD_QUEUED: 4 * MS, m.PROCESS_CPU: 11 * MS},
        threads=8,
    )
    # With a thread for each of 2 CPUs a step takes 3 + 8 / 2 ms: 3 ms less, of 6 steps.
    assert_speaks(
        run, "host-threads", cost_ns=36 * MS, gain_ns=18 * MS,
        evidence=["8 threads on 2 CPUs"], fix="OMP_NUM_THREADS=2",
    )  # fmt: skip
    assert_silent(run, "host-preempted")


@pytest.mark.parametrize(("faults", "speaks"), [(2000, True), (700, False)])
def test_page_faults_must_explain_the_kernels_time(
    tmp_path: Path, faults: int, speaks: bool
) -> None:
    run = program(tmp_path, {m.KERNEL_CPU: 2 * MS, m.PAGE_FAULTS: faults})
    if not speaks:  # 2.5 µs for each of 700 is less than 2 ms: the kernel does something else
        assert_silent(run, "host-page-faults")
        return
    assert_speaks(
        run, "host-page-faults", cost_ns=12 * MS, gain_ns=12 * MS,
        evidence=["2,000 page faults a step", "8.192 MB"], fix="MALLOC",
    )  # fmt: skip


def test_large_copies_count_and_small_ones_are_dispatch(tmp_path: Path) -> None:
    large = [("aten::mm", 0, 5 * MS), ("aten::cat", 5 * MS, 9 * MS)]
    run = program(tmp_path, {}, operators=large)
    assert_speaks(
        run, "host-copies", cost_ns=24 * MS, gain_ns=24 * MS, evidence=["aten::cat"], fix="once"
    )
    small = [("aten::mm", 0, 5 * MS)]
    small += [("aten::cat", 5 * MS + n * 10_000, 5 * MS + n * 10_000 + 9_000) for n in range(400)]
    again = write_program(tmp_path / "small", step_ns=STEP, rises=BUSY, operators=small)
    assert_silent(again, "host-copies")


def test_copies_of_a_program_that_uses_a_gpu_wait_for_it(tmp_path: Path) -> None:
    """NCCL runs on GPUs alone: what the host copies, it copies to or from one."""
    both = [("aten::mm", 0, 5 * MS), ("aten::_local_scalar_dense", 5 * MS, 9 * MS)]
    both.append(("nccl:all_reduce", 9 * MS, 9 * MS + 1_000))
    found = assert_speaks(
        program(tmp_path, {}, operators=both), "host-copies", cost_ns=24 * MS, gain_ns=None,
        evidence=["a GPU that was not recorded", "_local_scalar_dense"],
        fix="ProfilerActivity.CUDA",
    )  # fmt: skip
    assert found.is_remark


@pytest.mark.parametrize(("kernel_ns", "freed"), [(2 * MS, 0.9 * MS), (MS // 2, 0.5 * MS), (0, 0)])
def test_memory_that_goes_back_behind_a_copy_is_the_copys(
    tmp_path: Path, kernel_ns: int, freed: float
) -> None:
    # Python of 0.1 ms behind each product, and of 1 ms behind the copy, in a step of 10 ms.
    ends = [("aten::mm", n * 1_100_000, n * 1_100_000 + MS) for n in range(5)]
    work = [*ends, ("aten::cat", 5_500_000, 9 * MS)]
    run = program(tmp_path, {m.KERNEL_CPU: kernel_ns}, operators=work)
    (found,) = answers(run, "host-copies")
    # The last step's 1 ms lies behind the window's copies like the others'.
    assert found.gain_ns == pytest.approx(6 * 3.5 * MS + 6 * freed, abs=0.02 * MS)
    assert any("freeing the memory" in line for line in found.evidence) == bool(freed)


def test_compiling_counts_from_two_steps_on(tmp_path: Path) -> None:
    compiled = [("entire_frame_compile (dynamo_timed)", 0, 4 * MS), ("aten::mm", 5 * MS, 9 * MS)]
    plain = [("aten::mm", 5 * MS, 9 * MS)]
    twice = {n: compiled if n in (11, 13) else plain for n in range(10, 16)}
    run = program(tmp_path, {}, operators=twice)
    assert_speaks(
        run, "host-compiling", cost_ns=8 * MS, gain_ns=8 * MS, evidence=["2 steps"], fix="dynamic"
    )
    once = {n: compiled if n == 11 else plain for n in range(10, 16)}
    assert_silent(
        write_program(tmp_path / "once", step_ns=STEP, rises=BUSY, operators=once), "host-compiling"
    )


def test_steps_with_ever_more_operators_grow(tmp_path: Path) -> None:
    growing = {
        n: [("aten::mm", k * 100_000, k * 100_000 + 90_000) for k in range(10 * (n - 9))]
        for n in range(10, 16)
    }
    run = program(tmp_path, {}, operators=growing)
    assert answers(run, "host-growing") == []  # steps as long as before: nothing is lost
    steps = range(2, 8)
    slow = write_program(
        tmp_path / "slow", step_ns=STEP, rises=BUSY, recorded=steps,
        operators={n: growing[n + 8] for n in steps}, slower_ns={n: (n - 2) * MS for n in steps},
    )  # fmt: skip
    # 10, 11, .. 15 ms, after two steps that grew alike: of 8 ms each everything else is lost.
    assert_speaks(
        slow, "host-growing", cost_ns=27 * MS, gain_ns=27 * MS,
        evidence=["from 10 to 60 operators", "from 10.00 ms to 15.00 ms"], fix="detach",
    )  # fmt: skip
    same = dict.fromkeys(range(10, 16), WORK)
    assert_silent(
        write_program(tmp_path / "same", step_ns=STEP, rises=BUSY, operators=same), "host-growing"
    )


def test_a_busy_program_is_none_of_theirs(tmp_path: Path) -> None:
    full = [("aten::mm", 0, 5 * MS), ("aten::mm", 5 * MS, STEP)]
    assert speaking(program(tmp_path, {}, operators=full)) == []


def test_main_threads_are_named_with_the_share_of_their_ranks(tmp_path: Path) -> None:
    for rank in range(3):
        run = write_program(
            tmp_path / "run", step_ns=STEP, operators=WORK, rises=BUSY, rank=rank
        )  # windows of 60 ms
    lost = pl.DataFrame({"rank": [0, 1, 2], "ns": [9 * MS, 54 * MS, 60 * MS]})
    there = find_there(run, lost)
    assert there.thread == "On ranks 1 and 2 the main thread"
    assert there.share == "95.0 % (rank 2: 100.0 %)"
    one = find_there(run, lost.head(2))
    assert (one.thread, one.share) == ("On rank 1 the main thread", "90.0 %")
    assert find_there(run, lost.with_columns(ns=6 * MS)).thread == "The main thread"
    assert find_there(run, lost.with_columns(ns=0)).ranks == []
