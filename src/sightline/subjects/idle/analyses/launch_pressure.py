"""Whether the host can feed the device: the length of kernels against the pace of launches."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import is_one_group
from sightline.core.algebra.lookup import find_rows, keep_rows, take_rows
from sightline.core.model.columns import RANK, duration, flag, number, pct, real
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.host_ranges import PACE_NS
from sightline.timeline.idle import PACE_INTERVALS

# TraceLens's agent (docs, 2026-08) calls idle above 15 % of the window worth a look.
IDLE_PCT = 15.0
# Of fewer calls none is a pace (ours: one training step launches hundreds).
LEAST_CALLS = 10
_LONGEST_NS = PACE_INTERVALS * PACE_NS

ANALYSIS = Analysis(
    "launch_pressure",
    "Can the host launch work as fast as the device completes it?",
    (
        RANK,
        number("device_id", "device", required=True),
        number("launches", "launched operations"),
        number("launch_calls", "calls that launched them: a graph launch is one call"),
        real("median_op_ns", "median length of a launched operation on the device", "ns"),
        real("median_interval_ns", "median time between two launch calls of a thread", "ns"),
        number(
            "empty_queue", "operations whose stream had nothing waiting when they were launched"
        ),
        pct("empty_queue_pct", "empty_queue, % of launches"),
        duration("late_idle_ns", "idle because a launch came late or was on its way"),
        pct("late_idle_pct", "late_idle_ns, % of the window"),
        duration(
            "pace_idle_ns",
            f"the part of late_idle_ns in gaps of up to {PACE_INTERVALS} median intervals, and up "
            f"to {_LONGEST_NS / 1e6:g} ms: longer gaps are the host's own work",
        ),
        flag(
            "launch_bound",
            f"late_idle_pct is over {IDLE_PCT:.0f}, most of it pace_idle_ns, and the host's pace "
            f"of at least {LEAST_CALLS} launches is slower than the device; never where only the "
            "times of launches were recorded: anything may lie between them",
        ),
    ),
    needs=("device_ops", "host_ops"),
)

_BY = ["rank", "device_id"]


def run(run: Run) -> pl.DataFrame:
    """One row per rank and device that has launches."""
    launched = run.ask("kernel_launches")
    host = run.table("host_ops", ["host_op_id", "pid", "tid"])
    ops = run.table("device_ops", ["device_op_id", "launch_id"])
    at = find_rows(ops.get_column("device_op_id"), launched.get_column("device_op_id"))
    calls = launched.select(*_BY, "api_start_ns").with_columns(
        launch_id=ops.get_column("launch_id").gather(at)
    )
    calls = keep_rows(calls, calls.get_column("launch_id").is_first_distinct())
    called = find_rows(host.get_column("host_op_id"), calls.get_column("launch_id"))
    calls = calls.hstack(take_rows(host.select("pid", "tid"), called))
    interval, thread = pl.col("api_start_ns").diff(), [*_BY, "pid", "tid"]
    if not is_one_group(calls, thread):
        interval = interval.over(thread)
    calls = (
        calls.with_columns(interval=interval)
        .group_by(_BY)
        .agg(launch_calls=pl.len(), median_interval_ns=pl.col("interval").median())
    )
    longest = pl.min_horizontal(PACE_INTERVALS * pl.col("median_interval_ns"), _LONGEST_NS)
    at_pace = pl.col("part_ns") <= longest
    late = (
        run.ask("idle_parts")
        .filter(pl.col("cause").is_in(["host_late", "launch_latency"]))
        .join(calls, on=_BY)
        .group_by(_BY)
        .agg(
            late_idle_ns=pl.col("part_ns").sum(),
            pace_idle_ns=pl.col("part_ns").filter(at_pace).sum(),
        )
    )
    return (
        launched.group_by(_BY)
        .agg(
            launches=pl.len(),
            median_op_ns=pl.col("duration_ns").median(),
            lasts=(pl.col("api_ns") > 0).any(),
            empty_queue=(pl.col("queue_depth") == 0).sum(),
        )
        .join(calls, on=_BY)
        .join(late, on=_BY, how="left")
        .join(run.ask("breakdown").select(*_BY, "window_ns"), on=_BY)
        .with_columns(pl.col("late_idle_ns", "pace_idle_ns").fill_null(0))
        .with_columns(
            empty_queue_pct=100 * pl.col("empty_queue") / pl.col("launches"),
            late_idle_pct=(100 * pl.col("late_idle_ns") / pl.col("window_ns")).fill_nan(0.0),
        )
        .with_columns(
            launch_bound=(pl.col("late_idle_pct") > IDLE_PCT)
            & (2 * pl.col("pace_idle_ns") > pl.col("late_idle_ns"))
            & (pl.col("median_interval_ns") > pl.col("median_op_ns"))
            & (pl.col("launch_calls") >= LEAST_CALLS)
            & pl.col("lasts")
        )
        .drop("window_ns", "lasts")
        .sort(_BY)
    )
