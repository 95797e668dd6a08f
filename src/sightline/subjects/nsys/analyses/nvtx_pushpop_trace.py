"""Every NVTX push/pop range with its place in the stack: nsys calls it nvtx_pushpop_trace."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._projection import build_annotation_tree
from sightline.subjects.nsys.analyses._shared import (
    NVTX_HINT,
    declare_name,
    move_to_session_time,
    require_rows,
)

ANALYSIS = Analysis(
    "nvtx_pushpop_trace",
    "Which push/pop ranges were there, one after the other? (as nsys stats)",
    (
        number("Start (ns)", "start, since the session began", "ns"),
        number("End (ns)", "end", "ns"),
        number("Duration (ns)", "duration", "ns"),
        number("DurChild (ns)", "duration of the ranges directly inside", "ns"),
        number("DurNonChild (ns)", "duration without them", "ns"),
        declare_name("Name", "domain and text"),
        number("PID", "process"),
        number("TID", "thread"),
        number("Lvl", "ranges around it"),
        number("NumChild", "ranges directly inside"),
        number("RangeId", "number of the range's event, or of the range in this table"),
        number("ParentId", "number of the range around it"),
        text("RangeStack", "numbers from the outermost range to this one"),
        text("NameTree", "name, after two dashes per level"),
    ),
    needs=("host_ops",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per range, in order of start."""
    return move_to_session_time(
        require_rows(
            build_annotation_tree(run), "nvtx_pushpop_trace", "push/pop ranges", NVTX_HINT
        ),
        run,
        "start_ns",
        "end_ns",
    ).select(
        pl.col("start_ns").alias("Start (ns)"),
        pl.col("end_ns").alias("End (ns)"),
        pl.col("ns").alias("Duration (ns)"),
        pl.col("children_ns").alias("DurChild (ns)"),
        (pl.col("ns") - pl.col("children_ns")).alias("DurNonChild (ns)"),
        pl.col("Range").alias("Name"),
        pl.col("pid").alias("PID"),
        pl.col("tid").alias("TID"),
        pl.col("level").alias("Lvl"),
        pl.col("children").alias("NumChild"),
        pl.col("number").alias("RangeId"),
        pl.col("up_number").alias("ParentId"),
        pl.col("trail").alias("RangeStack"),
        pl.concat_str(pl.lit("--").repeat_by("level").list.join(""), "Range").alias("NameTree"),
    )
