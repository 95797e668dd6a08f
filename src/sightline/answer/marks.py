"""What a program marked itself, for the first screen: steps, ranges, checkpoints, counters."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from sightline.core.metric_names import list_metric_names
from sightline.core.model.run import Run
from sightline.core.model.usage_metrics import ASLEEP, AT_STEPS

TOP = 8
_CHECKPOINT = "checkpoint: "


def summarize_marks(run: Run) -> dict[str, Any]:
    """Steps per rank, the longest annotated ranges, checkpoints in order, counters per device."""
    found: dict[str, Any] = {
        "steps": [],
        "ranges": [],
        "checkpoints": [],
        "counters": [],
        "ranges_left_out": 0,
        "checkpoints_left_out": 0,
    }
    is_own = "sightline_events" in run.table("recordings").get_column("format")
    if is_own or not run.rows("device_ops"):
        found["counters"] = _counters(run)
    if not is_own:
        return found  # what other tools' ranges cost stands in the analysis annotations
    if run.rows("host_ops"):
        found["steps"] = _steps(run)
        for name, rows in (("ranges", _ranges(run)), ("checkpoints", _checkpoints(run))):
            found[name] = rows.head(TOP).to_dicts()
            found[f"{name}_left_out"] = max(rows.height - TOP, 0)
        found["checkpoints"] = [_checkpoint(row) for row in found["checkpoints"]]
    return found


def _steps(run: Run) -> list[dict[str, Any]]:
    """One row per rank: how many, and how long."""
    steps = run.ask("steps").unique(["rank", "start_ns"], keep="first", maintain_order=True)
    length = pl.col("duration_ns")
    return (
        steps.group_by("rank", maintain_order=True)
        .agg(
            steps=pl.len(),
            median_ns=length.median().cast(pl.Int64),
            min_ns=length.min(),
            max_ns=length.max(),
            first_ns=length.first(),
        )
        .sort("rank")
        .to_dicts()
    )


def _ranges(run: Run) -> pl.DataFrame:
    """Annotated ranges by name, over all ranks; steps and moments are not ranges."""
    host = run.table("host_ops").filter(
        (pl.col("layer") == "annotation") & (pl.col("range_kind").fill_null("") != "mark")
    )
    return (
        host.with_columns(length=pl.col("end_ns") - pl.col("start_ns"))
        .group_by("name")
        .agg(
            instances=pl.len(),
            total_ns=pl.col("length").sum(),
            mean_ns=pl.col("length").mean().round().cast(pl.Int64),
            ranks=pl.col("rank").n_unique(),
        )
        .sort("total_ns", "name", descending=[True, False])
    )


def _checkpoints(run: Run) -> pl.DataFrame:
    """Checkpoints in order of time."""
    return (
        run.table("host_ops")
        .filter((pl.col("range_kind") == "mark") & pl.col("name").str.starts_with(_CHECKPOINT))
        .sort("start_ns", "rank")
        .select("rank", "name", "start_ns", "payload")
    )


def _checkpoint(row: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint with the memory that it saw."""
    told = json.loads(row["payload"] or "{}")
    sizes = ("allocated_bytes", "reserved_bytes", "process_bytes", "synchronized")
    return {
        "rank": row["rank"],
        "name": row["name"].removeprefix(_CHECKPOINT),
        "time_ns": row["start_ns"],
        **{k: told.get(k) for k in sizes},
    }


def _counters(run: Run) -> list[dict[str, Any]]:
    """Mean and extremes of each metric and place, well-known ones first.

    What is counted at the ends of steps is the analysis `step_usage`'s. Of a counter that only
    rises, its rise: one sample has none, nor a counter that was reset. Of
    values that each cover an interval, their sum.
    """
    if not run.rows("counters"):
        return []
    by = ["rank", "device_id", "source", "metric", "unit"]
    value = pl.col("value")
    places = {name: place for place, name in enumerate(list_metric_names())}
    order = pl.col("metric").replace_strict(places, default=len(places), return_dtype=pl.Int64)
    return (
        run.table("counters")
        .filter(~pl.col("metric").is_in(AT_STEPS), ~pl.col("metric").str.starts_with(ASLEEP))
        .sort("time_ns")
        .group_by(by)
        .agg(
            samples=pl.len(),
            mean=value.mean(),
            min=value.min(),
            max=value.max(),
            rise=pl.when(pl.col("from_ns").is_not_null().all())
            .then(value.sum())
            .when((pl.len() > 1) & (value.diff().drop_nulls() >= 0).all())
            .then(value.last() - value.first()),
        )
        .sort("rank", "device_id", pl.col("source").is_not_null(), order, *by, nulls_last=True)
        .to_dicts()
    )
