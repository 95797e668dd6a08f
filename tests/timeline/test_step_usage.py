"""What the operating system counted at the ends of steps, and what recording cost them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sightline.core.model import usage_metrics as m
from sightline.timeline.host_parts import list_segments, list_windows
from sightline.timeline.step_usage import list_usage, measure_recording_cost, sum_usage
from support.stepped import MS, write_program

ALL = {
    m.THREAD_CPU: 6 * MS,
    m.THREAD_QUEUED: 1 * MS,
    m.PROCESS_CPU: 9 * MS,
    m.KERNEL_CPU: 2 * MS,
    m.PAGE_FAULTS: 500,
    m.BLOCK_IO: 3,
    m.THREAD_SLEEPS: 3,
    m.THREAD_PREEMPTIONS: 1,
}
WORK = [("aten::mm", 1 * MS, 4 * MS), ("aten::add", 5 * MS, 6 * MS)]


def test_running_queued_and_asleep_are_the_interval(tmp_path: Path) -> None:
    run = write_program(tmp_path / "run", step_ns=10 * MS, rises=ALL, operators=WORK)
    rows = list_usage(run)
    assert rows.height == 19  # the first reading begins the first interval
    (row,) = (
        rows.filter(~pl.col("recorded"))
        .drop("start_ns", "end_ns", "recorded")
        .unique()
        .rows(named=True)
    )
    assert row == {
        "rank": 0, "running_ns": 6 * MS, "queued_ns": MS, "process_ns": 9 * MS,
        "kernel_ns": 2 * MS, "faults": 500, "disk_operations": 3, "asleep_ns": 3 * MS,
        "sleeps": 3, "preemptions": 1,
    }  # fmt: skip


def test_sums_leave_out_the_recorded_steps_and_those_beside_them(tmp_path: Path) -> None:
    run = write_program(
        tmp_path / "run", step_ns=10 * MS, slower_ns=30 * MS, rises=ALL, operators=WORK
    )
    row = sum_usage(run).row(0, named=True)
    assert (row["steps"], row["length_ns"]) == (11, 110 * MS)
    assert (row["running_pct"], row["queued_pct"], row["asleep_pct"]) == (60, 10, 30)
    assert (row["cpus"], row["usable_cpus"], row["torch_threads"]) == (0.9, 2, 1)
    assert row["preempted_ratio"] == 0.25


def test_a_kernel_without_schedstat_leaves_queued_unknown(tmp_path: Path) -> None:
    rises = {k: v for k, v in ALL.items() if k != m.THREAD_QUEUED}
    run = write_program(tmp_path / "run", step_ns=10 * MS, rises=rises)
    row = sum_usage(run).row(0, named=True)
    assert (row["queued_ns"], row["asleep_ns"]) == (None, 19 * 4 * MS)


def test_recording_cost_is_that_of_recorded_against_other_steps(tmp_path: Path) -> None:
    run = write_program(tmp_path / "run", step_ns=10 * MS, slower_ns=2 * MS, operators=WORK)
    # Of 20 steps 6 were recorded; the first, and those beside the recording, are not counted.
    assert measure_recording_cost(run).rows() == [(0, 12 * MS, 10 * MS, 10 * MS, 6, 11)]


def test_without_other_steps_no_cost_is_known(tmp_path: Path) -> None:
    run = write_program(tmp_path / "run", step_ns=10 * MS, operators=WORK, recorded=range(20))
    assert measure_recording_cost(run).is_empty()
    segments = list_segments(run)
    assert segments.get_column("own_ns").equals(segments.get_column("undisturbed_ns"))


def test_the_window_is_the_steps_in_which_operators_were_recorded(tmp_path: Path) -> None:
    run = write_program(tmp_path / "run", step_ns=10 * MS, operators=WORK)
    window = list_windows(run).row(0, named=True)
    assert (window["start_ns"], window["end_ns"], window["steps"]) == (100 * MS, 160 * MS, 6)


def test_a_range_without_length_takes_no_time(tmp_path: Path) -> None:
    work = [("aten::empty", 5 * MS, 5 * MS), ("aten::mm", 5 * MS, 9 * MS)]
    run = write_program(tmp_path / "run", step_ns=10 * MS, operators=work)
    own = list_segments(run).group_by("part").agg(pl.col("own_ns").sum())
    assert dict(own.rows()) == {"matrix product": 6 * 4 * MS, "Python": 6 * 6 * MS}


def test_what_recording_took_is_taken_off_around_the_ranges(tmp_path: Path) -> None:
    # 100 operators of 10 µs in each step, 10 µs apart; recording each made the step 1 µs longer.
    small = [("aten::add", 20_000 * n, 20_000 * n + 10_000) for n in range(100)]
    run = write_program(
        tmp_path / "run", step_ns=3 * MS - 100_000, slower_ns=100_000, operators=small
    )
    segments = list_segments(run)
    own, bare = segments.select(pl.col("own_ns", "undisturbed_ns").sum()).row(0)
    ranges = run.table("host_ops").filter(pl.col("layer").is_in(["op", "step"])).height
    steps = list_windows(run).item(0, "steps")
    assert own == steps * 3 * MS
    # 1 µs for each range, but for the steps' own marks, which lie inside no other range.
    assert own - bare <= steps * 100_000
    assert own - bare >= 0.97 * steps * 100_000, ranges
    inside = segments.filter(pl.col("layer") == "op")
    assert inside.get_column("own_ns").equals(inside.get_column("undisturbed_ns"))


def test_what_recording_took_is_taken_off_once_where_another_thread_works(tmp_path: Path) -> None:
    """Python between two operators waits for 6 µs in its middle, or all of the 10 µs."""
    small = [("aten::add", 20_000 * n, 20_000 * n + 10_000) for n in range(100)]
    times = {"step_ns": 3 * MS - 100_000, "slower_ns": 100_000}
    plain = list_segments(write_program(tmp_path / "plain", operators=small, **times))
    taken = plain.select(pl.col("own_ns").sum() - pl.col("undisturbed_ns").sum()).item()
    for begin, end in ((12_000, 18_000), (10_000, 20_000)):
        gloo = [("gloo:all_reduce", 20_000 * n + begin, 20_000 * n + end) for n in range(99)]
        run = write_program(tmp_path / f"run{begin}", operators=small, elsewhere=gloo, **times)
        segments = list_segments(run)
        waits = segments.filter(part="communication")
        assert waits.get_column("own_ns").sum() == 6 * 99 * (end - begin)
        assert segments.select(
            pl.col("own_ns").sum() - pl.col("undisturbed_ns").sum()
        ).item() == pytest.approx(taken, rel=0.01), begin


@pytest.mark.parametrize(("longer", "steps"), [(9 * MS, 6), (11 * MS, 5)])
def test_a_step_in_which_a_profiler_starts_is_not_in_the_window(
    tmp_path: Path, longer: int, steps: int
) -> None:
    """Six steps of 10 ms were recorded; the first is out where it takes more than twice as long."""
    run = write_program(
        tmp_path / "run", step_ns=10 * MS, slower_ns={10: longer}, operators=WORK, rises=ALL
    )
    (window,) = list_windows(run).rows(named=True)
    assert window["steps"] == steps
    left_out = (6 - steps) * (10 * MS + longer)
    assert window["end_ns"] - window["start_ns"] == 60 * MS + longer - left_out


def test_of_a_program_that_only_marks_steps_the_setup_is_no_step(tmp_path: Path) -> None:
    """Without a profiler all steps are the window, but for the first, in which it imports."""
    run = write_program(
        tmp_path / "run",
        step_ns=10 * MS,
        slower_ns={0: 500 * MS},
        recorded=range(1),
        rises=ALL,
    )
    (window,) = list_windows(run).rows(named=True)
    assert (window["steps"], window["end_ns"] - window["start_ns"]) == (19, 190 * MS)
