"""Threads, host ranges, samples of call stacks, context switches."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sightline.core.algebra.nesting import nest_ranges

_INSTANT = 3
# Bits of a task's state when it leaves a core (include/linux/sched.h; ftrace's sched_switch).
_STATES = {0: "R", 1: "S", 2: "D", 4: "T", 8: "t", 16: "X", 32: "Z", 64: "P", 128: "I", 256: "R+"}


def list_threads(raw: Mapping[str, pl.DataFrame], tracks: pl.DataFrame) -> pl.DataFrame:
    """The table threads, of tracks, of old descriptors and of the process tree."""
    of_tracks = tracks.drop_nulls("owner_tid").select(
        pid="owner_pid", tid="owner_tid", thread_name="thread_name"
    )
    listed = raw["threads"].select("pid", "tid", thread_name="name")
    names = pl.concat(
        [
            tracks.filter(pl.col("owner_tid").is_null()).select(
                pid="owner_pid", process_name="process_name"
            ),
            raw["processes"].select("pid", process_name="name"),
        ]
    )
    named = names.drop_nulls().unique("pid", keep="first", maintain_order=True)
    threads = pl.concat([of_tracks, listed]).drop_nulls(["pid", "tid"])
    merged = threads.group_by("pid", "tid", maintain_order=True).agg(
        pl.col("thread_name").drop_nulls().first()
    )
    return merged.join(named, on="pid", how="left", maintain_order="left")


def nest_host(slices: pl.DataFrame) -> pl.DataFrame:
    """The table host_ops with `event`: ranges of threads nested, all others side by side."""
    is_mark = pl.col("type") == _INSTANT
    is_program = pl.col("layer") == "annotation"
    correlation = pl.coalesce(
        pl.col("arguments").str.extract(r'"(?:corr_id|correlation|correlation_id)":(\d{1,18})\b')
    ).cast(pl.Int64, strict=False)
    ranges = slices.select(
        "event",
        "start_ns",
        "end_ns",
        "pid",
        "tid",
        "layer",
        name=pl.coalesce("name", pl.lit("unnamed range")),
        range_kind=pl.when(is_mark)
        .then(pl.lit("mark"))
        .when(is_program)
        .then(pl.when("is_thread").then(pl.lit("pushpop")).otherwise(pl.lit("startend"))),
        category="category",
        payload="arguments",
        stack_id="stack",
        correlation_id=pl.when(pl.col("layer").is_in(["runtime", "driver"])).then(correlation),
        apart=is_mark | ~pl.col("is_thread"),
    )
    return nest_ranges(ranges, apart=pl.col("apart")).drop("apart")


def list_samples(raw: Mapping[str, pl.DataFrame], threads: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The tables cpu_samples, frames, stacks and sched_events."""
    frames = raw["frames"].select(
        frame_id=pl.int_range(pl.len(), dtype=pl.Int64),
        layer=pl.lit("native"),
        function=pl.coalesce("function", pl.lit("[unknown]")),
        file="file",
        line="line",
        module="module",
    )
    samples = raw["samples"].select(
        "pid", "tid", "cpu", time_ns="time", stack_id="stack", on_cpu=pl.lit(value=True)
    )
    return {
        "cpu_samples": samples,
        "frames": frames,
        "stacks": _add_depths(raw["stacks"]),
        "sched_events": _list_switches(raw["switches"], threads),
    }


def _add_depths(nodes: pl.DataFrame) -> pl.DataFrame:
    depths: list[int] = []
    for parent in nodes.get_column("parent").to_list():
        depths.append(0 if parent is None else depths[parent] + 1)
    return nodes.select(
        stack_id=pl.int_range(pl.len(), dtype=pl.Int64),
        parent_id="parent",
        frame_id="frame",
        depth=pl.Series(depths, dtype=pl.Int64),
    )


def _list_switches(switches: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    """A thread that leaves a core and one that comes, of each switch. Thread 0 is idleness."""
    states = pl.col("prev_state").replace_strict(_STATES, default=None, return_dtype=pl.String)
    both = pl.concat(
        [
            switches.select(
                "cpu", time_ns="time", tid="prev_tid", switched_in=pl.lit(value=False), state=states
            ),
            switches.select(
                "cpu", time_ns="time", tid="next_tid", switched_in=pl.lit(value=True), state=None
            ),
        ],
        how="vertical_relaxed",
    )
    owners = threads.select("tid", "pid").unique("tid", keep="first")
    seen = both.filter(pl.col("tid") > 0).sort("time_ns", "switched_in", maintain_order=True)
    return seen.join(owners, on="tid", how="left", maintain_order="left")
