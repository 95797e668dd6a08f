"""How much of the communication is hidden behind compute."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import clip_intervals, measure_cover
from sightline.core.model.columns import RANK, duration, number, pct
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.classes import COMMUNICATION, COMPUTE, COPY, classify_run

ANALYSIS = Analysis(
    "overlap",
    "How much of the communication and of the copies is hidden behind compute?",
    (
        RANK,
        number("device_id", "device", required=True),
        duration("compute_ns", "compute was running"),
        duration("comm_ns", "communication was running"),
        duration("comm_overlap_ns", "communication and compute were running"),
        pct("comm_overlap_pct", "comm_overlap_ns, % of comm_ns; null without communication"),
        duration("exposed_comm_ns", "communication was running without compute"),
        duration("copy_ns", "copies or memsets were running"),
        duration(
            "copy_overlap_ns",
            "copies or memsets were running while compute or communication was running",
        ),
        pct("copy_overlap_pct", "copy_overlap_ns, % of copy_ns; null without copies"),
    ),
    needs=("device_ops",),
    notes=("Each time is the union over all streams of the device.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and device."""
    by = ["rank", "device_id"]
    ops = classify_run(run)
    inside = clip_intervals(ops.select(*by, "start_ns", "end_ns", "class_"), run.ask("windows"), by)
    answer = run.ask("breakdown").select(*by, "exposed_comm_ns", "exposed_copy_ns")
    for name, class_ in (("compute", COMPUTE), ("comm", COMMUNICATION), ("copy", COPY)):
        part = measure_cover(inside.filter(pl.col("class_") == class_), by)
        answer = answer.join(
            part.rename({"covered_ns": f"{name}_ns"}), on=by, how="left", maintain_order="left"
        ).with_columns(pl.col(f"{name}_ns").fill_null(0))
    for name in ("comm", "copy"):
        hidden = pl.col(f"{name}_ns") - pl.col(f"exposed_{name}_ns")
        answer = answer.with_columns(
            hidden.alias(f"{name}_overlap_ns"),
            pl.when(pl.col(f"{name}_ns") > 0)
            .then(100 * hidden / pl.col(f"{name}_ns"))
            .alias(f"{name}_overlap_pct"),
        )
    return answer.drop("exposed_copy_ns")
