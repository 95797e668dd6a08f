"""What each annotated range of the program cost, on the host and on the device."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover
from sightline.core.algebra.trees import find_nearest_ancestor
from sightline.core.algebra.window import host_in
from sightline.core.model.columns import RANK, duration, number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "annotations",
    "What did each annotated range cost?",
    (
        RANK,
        text(
            "path", "the range and those around it, outermost first, ' / ' between", required=True
        ),
        text("name", "text of the range", required=True),
        text("domain", "NVTX domain; null is the default domain"),
        text("category", "NVTX category"),
        number("depth", "annotated ranges around it"),
        number("instances", "how often it was entered"),
        duration("host_ns", "time in it on the host"),
        number("device_ops", "device operations launched in it"),
        duration("device_ns", "sum of their durations"),
        duration("device_busy_ns", "time in which at least one of them was running, per instance"),
        duration(
            "projected_ns",
            "from the first one's start to the last one's end, summed over instances",
        ),
    ),
    needs=("host_ops",),
    notes=(
        "Ranges are annotations (record_function, NVTX, roctx) and marked steps; the number of a "
        "step is left out of its name here.",
        "A range gets what was launched in it on its own thread, but not backward work that "
        "autograd launches from another thread.",
        "A range also counts for the ranges around it: rows of different depth overlap.",
        "Of ranges that overlap without one holding the other, each has what was launched in it.",
    ),
)

_LAYERS = ["annotation", "step"]
_THREAD = ("rank", "recording_id", "pid", "tid")
_USED = (
    *_THREAD,
    *("host_op_id", "parent_id", "subtree_end_id", "layer", "name", "start_ns", "end_ns"),
    *("domain", "category"),
)
_INSTANCE = ["host_op_id"]


def run(run: Run) -> pl.DataFrame:
    """One row per rank and path of nested ranges, in order of first entry."""
    host = run.table("host_ops", _USED)
    ops = run.table("device_ops", ["launch_id", "start_ns", "end_ns"]).drop_nulls("launch_id")
    marked = host.filter(pl.col("layer").is_in(_LAYERS)).sort("host_op_id")
    ids = marked.get_column("host_op_id")
    around = find_nearest_ancestor(host, ids, ids, itself=False)
    marked = marked.select(
        "rank",
        "host_op_id",
        "name",
        "layer",
        "domain",
        "category",
        "start_ns",
        length=pl.col("end_ns") - pl.col("start_ns"),
    ).with_columns(
        name=pl.when(pl.col("layer") == "step")
        .then(pl.col("name").str.replace(r"[#\s]*\d+\s*$", "#*"))
        .otherwise("name"),
        around=around,
    )
    marked = marked.join(_join_paths(marked), on="host_op_id", maintain_order="left")
    if ops.height and run.window is not None:
        inside = host_in(marked, run.ask("windows"), whole_recording=False)
        marked = marked.filter(inside)
    cost = _sum_device_cost(host, marked, ops)
    return (
        marked.join(cost, on="host_op_id", how="left")
        .group_by("rank", "path", "domain", "category")
        .agg(
            pl.col("name", "depth").first(),
            instances=pl.len(),
            host_ns=pl.col("length").sum(),
            device_ops=pl.col("device_ops").sum(),
            device_ns=pl.col("device_ns").sum(),
            device_busy_ns=pl.col("covered_ns").sum(),
            projected_ns=pl.col("projected_ns").sum(),
            first=pl.col("start_ns").min(),
        )
        .sort("rank", "first", "depth", "path")
        .select(column.name for column in ANALYSIS.columns)
    )


def _join_paths(marked: pl.DataFrame) -> pl.DataFrame:
    """Path and depth of each range: level by level from the outermost."""
    level = marked.filter(pl.col("around").is_null()).select(
        "host_op_id", path="name", depth=pl.lit(0, pl.Int64)
    )
    levels = [level]
    while level.height:
        level = (
            marked.select("host_op_id", "name", "around")
            .join(level.rename({"host_op_id": "around"}), on="around")
            .select(
                "host_op_id",
                path=pl.col("path") + " / " + pl.col("name"),
                depth=pl.col("depth") + 1,
            )
        )
        levels.append(level)
    return pl.concat(levels)


def _sum_device_cost(host: pl.DataFrame, marked: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Device operations of each range: those launched in it or in a range inside it."""
    spans = ops.select(
        "launch_id", "start_ns", "end_ns", length=pl.col("end_ns") - pl.col("start_ns")
    )
    owner = find_nearest_ancestor(
        host, ops.get_column("launch_id"), marked.get_column("host_op_id")
    )
    pairs = spans.with_columns(host_op_id=owner).drop("launch_id").drop_nulls("host_op_id")
    outward = marked.select("host_op_id", "around")
    every = [pairs]
    while pairs.height:
        pairs = (
            pairs.join(outward, on="host_op_id")
            .drop("host_op_id")
            .rename({"around": "host_op_id"})
            .select(every[0].columns)
            .drop_nulls("host_op_id")
        )
        every.append(pairs)
    every.append(_find_crossed(host, marked, spans).select(every[0].columns))
    all_pairs = pl.concat(every)
    return (
        all_pairs.group_by("host_op_id")
        .agg(
            device_ops=pl.len(),
            device_ns=pl.col("length").sum(),
            projected_ns=pl.col("end_ns").max() - pl.col("start_ns").min(),
        )
        .join(measure_cover(all_pairs, _INSTANCE), on="host_op_id")
    )


def _find_crossed(host: pl.DataFrame, marked: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """What was launched within ranges that another one crosses, and has as its own.

    A tree gives a call to the innermost range that is open. Where a range begins a moment before
    the step that it is part of, it does not hold the step, and the step has all its calls.
    """
    next_one = host.select(
        *_THREAD, subtree_end_id="host_op_id", next_start="start_ns", next_layer="layer"
    )
    crossed = (
        host.join(marked.select("host_op_id"), on="host_op_id", how="semi")
        .join(next_one, on=[*_THREAD, "subtree_end_id"], nulls_equal=True)
        .filter((pl.col("next_start") < pl.col("end_ns")) & pl.col("next_layer").is_in(_LAYERS))
    )
    calls = host.select(*_THREAD, launch_id="host_op_id", called="start_ns")
    launched = spans.join(calls.drop_nulls("tid"), on="launch_id").sort(*_THREAD, "called")
    places = launched.with_row_index("place").select(*_THREAD, "place", "called")
    found = [
        _list_within(mine, places.join(mine.select(_THREAD).unique(), on=_THREAD, how="semi"))
        for mine in crossed.partition_by(_THREAD)
    ]
    if not found:
        return spans.clear().with_columns(host_op_id=pl.lit(None, pl.Int64))
    pairs = pl.concat(found)
    own = launched[pairs.get_column("place")]
    # Those before the end of its own subtree are its own already.
    return pl.concat([pairs, own], how="horizontal").filter(
        pl.col("launch_id") >= pl.col("subtree_end_id")
    )


def _list_within(ranges: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Places of the calls of a thread, in order of time, that begin within each of its ranges."""
    called, place = calls.get_column("called"), calls.get_column("place")
    first = called.search_sorted(ranges.get_column("start_ns"))
    last = called.search_sorted(ranges.get_column("end_ns"))
    within = pl.int_ranges(first, last, dtype=pl.Int64, eager=True)
    pairs = ranges.select("host_op_id", "subtree_end_id", at=within).explode("at").drop_nulls("at")
    return pairs.select("host_op_id", "subtree_end_id", place=place.gather(pairs["at"]))
