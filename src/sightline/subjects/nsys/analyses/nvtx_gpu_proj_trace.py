"""NVTX ranges on the GPU's timeline: nsys calls it nvtx_gpu_proj_trace."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._projection import project_ranges
from sightline.subjects.nsys.analyses._shared import (
    NVTX_HINT,
    declare_name,
    list_nvtx_ranges,
    move_to_session_time,
    require_rows,
)

ANALYSIS = Analysis(
    "nvtx_gpu_proj_trace",
    "When did the GPU work that each annotated range launched run? (as nsys stats)",
    (
        declare_name("Name", "domain and text of the range"),
        number("Projected Start (ns)", "start of its first GPU operation", "ns"),
        number("Projected Duration (ns)", "from there to the end of its last one", "ns"),
        number("Orig Start (ns)", "start of the range itself, since the session began", "ns"),
        number("Orig Duration (ns)", "duration of the range itself", "ns"),
        text("Style", "PushPop or StartEnd"),
        number("PID", "process"),
        number("TID", "thread"),
        number("NumGPUOps", "GPU operations that it launched"),
        number("Lvl", "ranges around it"),
        number("NumChild", "ranges directly inside"),
        number("RangeId", "number of the range"),
        number("ParentId", "number of the range around it"),
        text("RangeStack", "numbers from the outermost range to this one"),
    ),
    needs=("device_ops", "host_ops"),
    notes=(
        "A range holds the operations whose launching call lies inside it, on the same thread.",
        "Ranges without GPU work are left out.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per range that launched GPU work, in order of its first operation."""
    require_rows(list_nvtx_ranges(run), "nvtx_gpu_proj_trace", "annotated ranges", NVTX_HINT)
    return move_to_session_time(project_ranges(run), run, "start_ns", "from_ns").select(
        pl.col("Range").alias("Name"),
        pl.col("from_ns").alias("Projected Start (ns)"),
        pl.col("projected_ns").alias("Projected Duration (ns)"),
        pl.col("start_ns").alias("Orig Start (ns)"),
        pl.col("ns").alias("Orig Duration (ns)"),
        "Style",
        pl.col("pid").alias("PID"),
        pl.col("tid").alias("TID"),
        pl.col("ops").alias("NumGPUOps"),
        pl.col("level").alias("Lvl"),
        pl.col("children").alias("NumChild"),
        pl.col("number").alias("RangeId"),
        pl.col("up_number").alias("ParentId"),
        pl.col("trail").alias("RangeStack"),
    )
