"""What each marked step cost."""

from __future__ import annotations

import polars as pl

from sightline.algebra.classes import CLASSES, with_class
from sightline.algebra.intervals import segments, sum_by_owner
from sightline.model.columns import RANK, Column, duration, number, text, time
from sightline.model.declare import Analysis
from sightline.model.run import Run

ANALYSIS = Analysis(
    "steps",
    "What did each marked step cost?",
    (
        RANK,
        Column("device_id", pl.Int64, "device; null where the recording has no device operations"),
        text("step", "text of the mark", required=True),
        time("start_ns", "start of the step on the host"),
        time("end_ns", "end of the step on the host"),
        duration("duration_ns", "length of the step"),
        duration("compute_ns", "compute was running on the device during the step"),
        duration("exposed_comm_ns", "communication was running and no compute"),
        duration("exposed_copy_ns", "a copy or fill was running and nothing of the above"),
        duration("idle_ns", "nothing was running on the device"),
        number("launched_ops", "device operations that were launched from the step's thread in it"),
    ),
    needs=("host_ops",),
    notes=(
        "A step is the span of its mark on the host; work of the step before may still run in it.",
        "The four parts of a device sum to duration_ns to the nanosecond.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank, device and step, in order of time."""
    steps = _marked(run)
    devices = run.table("device_ops").select("rank", "device_id").unique()
    rows = steps.join(devices, on="rank", how="left")
    by = ["rank", "device_id"]
    ops = with_class(run.table("device_ops"), run.table("collectives"))
    cuts = pl.concat([rows.select(*by, t="start_ns"), rows.select(*by, t="end_ns")])
    pieces = segments(ops.select(*by, "start_ns", "end_ns", "class_"), cuts, by, CLASSES)
    inside = (
        pieces.sort("start_ns")
        .join_asof(
            steps.select("rank", step_start="start_ns", step_end="end_ns").sort("step_start"),
            left_on="start_ns",
            right_on="step_start",
            by="rank",
            check_sortedness=False,
        )
        .filter(pl.col("start_ns") < pl.col("step_end"))
    )
    parts = sum_by_owner(inside, [*by, "step_start"], CLASSES)
    launched = (
        run.table("device_ops")
        .select(*by, "launch_id")
        .join(run.table("host_ops").select(launch_id="host_op_id", at="start_ns"), on="launch_id")
        .sort("at")
        .join_asof(
            steps.select("rank", step_start="start_ns", step_end="end_ns").sort("step_start"),
            left_on="at",
            right_on="step_start",
            by="rank",
            check_sortedness=False,
        )
        .filter(pl.col("at") < pl.col("step_end"))
        .group_by(*by, "step_start")
        .agg(launched_ops=pl.len())
    )
    key = [*by, "start_ns"]
    return (
        rows.join(parts.rename({"step_start": "start_ns"}), on=key, how="left")
        .join(launched.rename({"step_start": "start_ns"}), on=key, how="left")
        .with_columns(pl.col("launched_ops").fill_null(0))
        .sort("rank", "device_id", "start_ns")
        .select(c.name for c in ANALYSIS.columns)
    )


def _marked(run: Run) -> pl.DataFrame:
    """The steps of each rank's main thread: the one that marks most of them."""
    marks = run.scan("host_ops").filter(pl.col("layer") == "step").collect()
    main = (
        marks.group_by("rank", "pid", "tid")
        .agg(n=pl.len())
        .sort("n", "pid", "tid", descending=[True, False, False])
        .unique("rank", keep="first", maintain_order=True)
    )
    return (
        marks.join(main, on=["rank", "pid", "tid"], how="semi", nulls_equal=True)
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .select(
            "rank",
            pl.col("name").alias("step"),
            "start_ns",
            "end_ns",
            duration_ns=pl.col("end_ns") - pl.col("start_ns"),
        )
        .sort("rank", "start_ns")
    )
