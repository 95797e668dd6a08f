"""What the launching thread did while the device waited for it, as lines of evidence.

Ranges name it where there are any (`Claim.host_op`). Where there are none, the profiler's CPU
samples do, which fall into the same time on the same thread; without samples, the calls on either
side say where in the program it is.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows, match_names, take_rows
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.core.text import fit_text
from sightline.core.units import format_count, format_pct
from sightline.diagnosis.gaps import NO_RANGE, Claim
from sightline.timeline.runtimes import COLLECT, RANGE, Runtime, find_runtimes, list_runtimes
from sightline.timeline.sampled_runtimes import list_sampled_runtimes

_THREAD = ["rank", "pid", "tid"]
_MOST_GAPS = 1000  # the longest: they hold nearly all of the time, and are looked up one by one
_LEAST_SAMPLES = 10  # ours: fewer fall where they do by chance
_TOP = 3
_WIDTH = 40  # of a name: three stand in a line
# Calls in which a program is; driver calls lie inside those of the runtime.
_CALLS = ["runtime", "driver", "mpi", "library", "os"]
# What compilers put around a launch in the triple-chevron syntax: no place that a person knows.
_HIDDEN = r"^__?(?:cuda|hip)(?:Push|Pop)CallConfiguration"


def describe_thinking(run: Run, claim: Claim) -> list[str]:
    """The claim's evidence, with what the launching threads did where no range says so."""
    sampled, around = _look_inside(run, claim.gaps)
    known = [line for line in claim.evidence if not sampled or line != NO_RANGE]
    return [*known, *sampled, *around]


def find_collector(run: Run, claim: Claim) -> Runtime | None:
    """The garbage collector that the launching threads were in for most of these gaps, if one.

    By the range that takes most of the time, else by more than half of the samples there.
    """
    rows = list_runtimes()
    by_range = find_runtimes(pl.Series([claim.host_op], dtype=pl.String), RANGE).item()
    if by_range is not None:
        return rows[by_range] if rows[by_range].kind == COLLECT else None
    samples = list_sampled_runtimes(run)
    if samples.is_empty():
        return None
    inside = _keep_inside(samples, _place_gaps(run, claim.gaps))
    collects = [row for row, known in enumerate(rows) if known.kind == COLLECT]
    mine = inside.get_column("runtime").drop_nulls()
    mine = mine.filter(mine.is_in(collects))
    if inside.height < _LEAST_SAMPLES or 2 * mine.len() <= inside.height:
        return None
    return rows[int(mine.mode().sort().item(0))]


_USED = ("host_op_id", *_THREAD, "layer", "name", "start_ns", "end_ns")


def _look_inside(run: Run, gaps: pl.DataFrame) -> tuple[list[str], list[str]]:
    """Lines from samples, or else from the calls around the gaps (rows of `idle_rules`)."""
    placed = _place_gaps(run, gaps)
    if placed.is_empty():
        return [], []
    sampled = _describe_samples(run, placed)
    if sampled:
        return [sampled], []
    return [], _describe_calls_around(run.table("host_ops", _USED), placed)


def _place_gaps(run: Run, gaps: pl.DataFrame) -> pl.DataFrame:
    """The longest gaps, with the thread that launched what ends each: pid, tid, launched_ns."""
    longest = gaps.drop_nulls("launch_id").top_k(_MOST_GAPS, by="duration_ns")
    host = run.table("host_ops", _USED)
    rows = find_rows(host.get_column("host_op_id"), longest.get_column("launch_id"))
    launches = host.select("pid", "tid", launch="name", launched_ns="start_ns")
    return longest.hstack(take_rows(launches, rows)).drop_nulls(["pid", "tid"])


def _keep_inside(samples: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """The samples (in order of time) that fell on a gap's thread in its time."""
    spans = gaps.select(*_THREAD, "end_ns", time_ns="start_ns").unique().sort("time_ns")
    return samples.join_asof(
        spans, on="time_ns", by=_THREAD, strategy="backward", check_sortedness=False
    ).filter(pl.col("time_ns") <= pl.col("end_ns"))


def _describe_samples(run: Run, gaps: pl.DataFrame) -> str | None:
    """'of 540 CPU samples of that thread there  41 % in std::abs, 30 % in main'."""
    if not run.rows("cpu_samples") or not run.rows("stacks"):
        return None
    samples = (
        run.table("cpu_samples")
        .filter(pl.col("on_cpu").fill_null(value=True) & pl.col("stack_id").is_not_null())
        .select(*_THREAD, "time_ns", "recording_id", "stack_id")
        .sort("time_ns")
    )
    inside = _keep_inside(samples, gaps)
    if inside.height < _LEAST_SAMPLES:
        return None
    keys = ["rank", "recording_id"]
    stacks = run.table("stacks").select(*keys, "stack_id", "frame_id")
    frames = run.table("frames").select(*keys, "frame_id", "function", "module")
    named = inside.join(stacks, on=[*keys, "stack_id"]).join(frames, on=[*keys, "frame_id"])
    # An address tells nobody anything: the library that it lies in does.
    is_address = pl.col("function").str.contains(r"^(?:0x[0-9a-fA-F]+|\[.*\])$").fill_null(True)
    library = pl.col("module").str.split("/").list.last()
    where = pl.when(is_address & library.is_not_null()).then(library).otherwise("function")
    top = (
        named.group_by(where=where)
        .agg(n=pl.len())
        .drop_nulls("where")
        .sort("n", "where", descending=[True, False])
        .head(_TOP)
    )
    if top.is_empty():
        return None
    said = ", ".join(
        f"{format_pct(100 * n / inside.height)} in {fit_text(name, _WIDTH)}"
        for name, n in top.rows()
    )
    return f"of {format_count(inside.height)} CPU samples of that thread there  {said}"


def _describe_calls_around(host: pl.DataFrame, gaps: pl.DataFrame) -> list[str]:
    """Between which calls most of the time lies in which no range was recorded."""
    outside = gaps.filter(pl.col("host_op").is_null())
    if 2 * sum_column(outside, "duration_ns") <= sum_column(gaps, "duration_ns"):
        return []
    threads = outside.get_column("tid").unique()
    calls = host.select(*_THREAD, "layer", before="name", launched_ns="end_ns").filter(
        pl.col("tid").is_in(threads.implode()) & pl.col("layer").is_in(_CALLS)
    )
    calls = calls.filter(~match_names(calls, _HIDDEN, "before")).drop("layer").sort("launched_ns")
    pairs = (
        outside.sort("launched_ns")
        .join_asof(calls, on="launched_ns", by=_THREAD, check_sortedness=False)
        .drop_nulls("before")
        .group_by("before", "launch")
        .agg(pl.col("duration_ns").sum())
        .filter(2 * pl.col("duration_ns") > sum_column(gaps, "duration_ns"))
    )
    return [
        f"most of it lies between the end of  {before}  and the next  {launch}: in the program's "
        "own code"
        for before, launch, _ in pairs.rows()
    ]
