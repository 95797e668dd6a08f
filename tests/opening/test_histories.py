"""A history beside a trace: one run, the job's part of it, its devices, or a clear refusal."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.run import Run
from support.command import sightline as command
from support.histories import EPOCH, SECOND, Phase, rest, train, write_history
from support.watched_traces import write_trace
from synth_nsys import Export

# An hour of idling, three minutes of work, an hour of idling.
BEGIN = EPOCH + 3600 * SECOND


def make_history(folder: Path, busy: int = 0, gpus: int = 2) -> Path:
    quiet = {n: rest(75.0) for n in range(gpus)}
    work = quiet | {busy: train(500.0)}
    phases = [Phase(3600, quiet), Phase(180, work), Phase(3600, quiet)]
    return write_history(folder / "gpu-history", phases, period_s=5)


def list_notes(run: Run, kind: str) -> list[str]:
    return run.table("quality").filter(pl.col("kind") == kind).get_column("text").to_list()


def test_the_steps_of_a_trace_get_the_historys_joules(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.json", BEGIN)
    run = sightline.open(str(trace), str(make_history(tmp_path)))
    assert list_notes(run, "history_joined") == [
        "joined with the history on time; by number: GPU 0 of rank 0 = GPU 0"
    ]
    energy = run.ask("energy")
    steps = energy.filter(pl.col("part").str.starts_with("ProfilerStep"))
    assert steps.height == 3
    for row in steps.iter_rows(named=True):
        assert row["low_j"] <= 60 * 500 <= row["high_j"]
        assert row["energy_j"] == pytest.approx(60 * 500, rel=0.05)
    # Of two hours the trace's three minutes are left, with eight readings on either side.
    (whole,) = energy.filter(part="while measured").get_column("duration_ns").to_list()
    assert 180 * SECOND <= whole <= 265 * SECOND
    assert run.ask("device_use").item(0, "idle_power_w") == pytest.approx(75)
    ranges = {row["name"]: row for row in run.ask("energy_of_ranges").to_dicts()}
    forward = ranges["forward"]
    assert (forward["instances"], forward["measured"]) == (3, 3)
    assert forward["low_j"] <= 90 * 500 <= forward["high_j"]
    assert forward["j_per_instance"] == pytest.approx(30 * 500, rel=0.1)
    kernels = run.ask("energy_of_kernels")
    assert kernels.filter(name="gemm").item(0, "energy_j") == pytest.approx(180 * 500, rel=0.1)


@pytest.mark.parametrize("first", ["trace", "history"])
def test_report_and_stats_take_both_in_any_order(tmp_path: Path, cache: Path, first: str) -> None:
    paths = [str(write_trace(tmp_path / "trace.json", BEGIN)), str(make_history(tmp_path))]
    if first == "history":
        paths.reverse()
    shown = command("report", *paths, "--no-html")
    assert shown.code == 0, shown.err
    assert "1 × NVIDIA H200" in shown.out
    (row,) = [line for line in shown.out.splitlines() if "tensor" in line]
    # Eight readings on either side, at rest, are in the means.
    assert re.match(r"0 +[67]\d % +6\d % +tensor 3\d % .* 3\d\d W", row)
    table = command("stats", "energy", *paths)
    assert table.code == 0 and "ProfilerStep#2" in table.out


def test_ranks_that_all_see_their_gpu_as_0_are_told_by_their_order(tmp_path: Path) -> None:
    quiet = {n: rest(75.0) for n in range(2)}
    work = {0: train(500.0), 1: train(300.0)}
    phases = [Phase(600, quiet), Phase(180, work), Phase(600, quiet)]
    history = write_history(tmp_path / "h", phases, period_s=5)
    begin = EPOCH + 600 * SECOND
    traces = [
        write_trace(tmp_path / f"rank{n}.json", begin, rank=n, world=2, device=0) for n in (0, 1)
    ]
    run = sightline.open(*map(str, traces), str(history))
    steps = run.ask("energy").filter(pl.col("part") == "ProfilerStep#1")
    joules = dict(steps.select("rank", "energy_j").rows())
    assert joules[0] == pytest.approx(60 * 500, rel=0.1)
    assert joules[1] == pytest.approx(60 * 300, rel=0.1)
    assert "by order of ranks" in list_notes(run, "history_joined")[0]


def refuse(run: Run) -> str:
    (text,) = list_notes(run, "history_not_joined")
    assert run.table("counters").is_empty()
    return text


def test_times_that_do_not_overlap_are_told_and_not_joined(tmp_path: Path) -> None:
    late = write_trace(tmp_path / "trace.json", EPOCH + 9 * 3600 * SECOND)
    text = refuse(sightline.open(str(late), str(make_history(tmp_path))))
    assert "the history covers" in text and "(UTC): nothing is joined" in text


def test_times_that_are_no_dates_are_not_joined(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.json", 0)
    assert "are not dates" in refuse(sightline.open(str(trace), str(make_history(tmp_path))))


def test_a_gpu_that_idled_is_not_taken_for_the_one_that_worked(tmp_path: Path) -> None:
    """CUDA_VISIBLE_DEVICES=1: the program calls it GPU 0."""
    trace = write_trace(tmp_path / "trace.json", BEGIN)
    text = refuse(sightline.open(str(trace), str(make_history(tmp_path, busy=1))))
    assert "GPU 0 of the history was idle" in text and "CUDA_VISIBLE_DEVICES" in text


def test_a_gpu_that_the_history_does_not_have_is_not_joined(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.json", BEGIN, device=5)
    assert "is not clear" in refuse(sightline.open(str(trace), str(make_history(tmp_path))))


def test_uuids_tell_whose_gpu_is_whose_where_both_keep_them(tmp_path: Path) -> None:
    """An export of Nsight Systems, of a program whose GPU 0 is the machine's GPU 1."""
    export = Export("3.25.0", utc_ns=BEGIN)
    export.add("TARGET_INFO_GPU", id=0, name="NVIDIA H200", smCount=132, uuid="GPU-1")
    export.api("cudaLaunchKernel", 0, 1000, 1)
    export.kernel("gemm", SECOND, 179 * SECOND, 1)
    trace = export.write(tmp_path / "trace.sqlite")
    paths = str(trace), str(make_history(tmp_path, busy=1))
    run = sightline.open(*paths, keep_identity=True)
    assert list_notes(run, "history_joined") == [
        "joined with the history on time; by UUID: GPU 0 of rank 0 = GPU 1"
    ]
    kernels = run.ask("energy_of_kernels").filter(name="gemm")
    assert kernels.item(0, "energy_j") == pytest.approx(178 * 500, rel=0.1)
    # Without them the numbers would tell, and they contradict the use.
    assert "CUDA_VISIBLE_DEVICES" in refuse(sightline.open(*paths))
