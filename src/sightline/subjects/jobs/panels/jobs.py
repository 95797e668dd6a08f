"""Jobs: what each was given, used and wasted, what is wrong, and the course of a single one."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core import registry
from sightline.core.model.columns import number, pct, real, text
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.errors import MissingDataError

PANEL = Panel("jobs", "Jobs", 5)
_METRICS = 30  # plots of one job: as many metrics as ClusterCockpit's clusters have
_COLUMNS = (
    text("job_id", "as its scheduler prints it"),
    text("user", "who owns it"),
    text("project", "account or project"),
    text("partition", "partition"),
    text("state", "state"),
    text("start", "when it began, UTC"),
    real("hours", "how long it ran", "h"),
    number("nodes", "nodes"),
    number("cpus", "hardware threads"),
    number("gpus", "GPUs"),
    pct("gpu_used_pct", "utilization of its GPUs"),
    pct("cpu_used_pct", "use of its processors"),
    pct("memory_used_pct", "peak memory, as a share of what it asked for"),
    real("wasted_gpu_hours", "GPU hours that the costliest problem took", "h"),
    real("wasted_core_hours", "core hours that it took", "h"),
    text("worst_rule", "the costliest problem"),
)


def data(view: View) -> list[Block]:
    """What is wrong, the jobs, and of a single job a plot of each metric over its parts."""
    run = view.run
    if not run.rows("jobs"):
        raise MissingDataError("no jobs", why="no job of a batch system is in the recording")
    found = []
    hours = ("gpu_hours", "core_hours", "lost_pct")
    problems = run.ask("job_problems").filter("judged").sort(hours, descending=True)
    if problems.height:
        columns = registry.load("analyses", "job_problems").ANALYSIS.columns
        hidden = ["rank", "recording_id", "job_row_id", "judged"]
        found.append(blocks.make_table("What is wrong", problems, columns, hide=hidden))
    use = run.ask("job_use").sort(
        "wasted_gpu_hours", "wasted_core_hours", descending=True, maintain_order=True
    )
    start = pl.from_epoch("start_ns", time_unit="ns").dt.strftime("%Y-%m-%d %H:%M")
    shown = use.with_columns(start=start, hours=pl.col("duration_ns") / 3.6e12)
    found.append(blocks.make_table("Jobs", shown, _COLUMNS, heat=["gpu_used_pct", "cpu_used_pct"]))
    if run.rows("jobs") == 1 and run.rows("job_series"):
        found += _plot_metrics(run.table("job_series"))
    return found


def _plot_metrics(series: pl.DataFrame) -> list[Block]:
    """Of each metric and scope the least, mean and largest of all places over time."""
    found = []
    by = ["metric", "scope"]
    places = series.select(*by, "host", "element").unique().group_by(by).len()
    counts = {(metric, scope): count for metric, scope, count in places.iter_rows()}
    start: Any = series.get_column("time_ns").min()
    for (metric, scope), rows in series.sort(*by).group_by(by, maintain_order=True):
        unit = rows.item(0, "unit") or ""
        per, unit = (1e9, "GFlop/s") if unit == "flop/s" else (1.0, unit)
        value = pl.col("value") / per
        over = (
            rows.group_by("time_ns")
            .agg(least=value.min(), mean=value.mean(), largest=value.max())
            .sort("time_ns")
        )
        count = counts[metric, scope]
        several = {"least": "least", "mean": "mean", "largest": "largest"}
        lines = several if count > 1 else {"mean": str(metric)}
        title = f"{metric} · {count} {scope}{'' if count == 1 else 's'}"
        block = blocks.make_lines(title, over, "time_ns", lines, start, unit)
        if block["series"]:
            found.append(block)
        if len(found) == _METRICS:
            break
    return found
