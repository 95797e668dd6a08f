"""How each stream was used."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import clip_intervals, measure_cover
from sightline.core.model.columns import RANK, duration, number, pct, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "streams",
    "How was each stream used?",
    (
        RANK,
        number("device_id", "device", required=True),
        number("stream_id", "stream"),
        number("ops", "operations that ran in the window"),
        number("kernels", "kernels and graph launches among them"),
        number("copies", "copies and memsets among them"),
        time("first_ns", "first start"),
        time("last_ns", "last end"),
        duration("busy_ns", "something of this stream was running"),
        pct("window_pct", "busy_ns, % of the device's window"),
    ),
    needs=("device_ops",),
    notes=("A stream that is not busy does not mean an idle device: idle time is in `breakdown`.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank, device and stream."""
    by = ["rank", "device_id", "stream_id"]
    windows = run.ask("windows")
    inside = clip_intervals(
        run.table("device_ops"), windows, ["rank", "device_id"], keep_empty=True
    )
    is_kernel = pl.col("kind").is_in(["kernel", "graph"])
    window = pl.col("window_end_ns") - pl.col("window_start_ns")
    return (
        inside.group_by(by)
        .agg(
            ops=pl.len(),
            kernels=is_kernel.sum(),
            copies=(~is_kernel).sum(),
            first_ns=pl.col("start_ns").min(),
            last_ns=pl.col("end_ns").max(),
        )
        .join(measure_cover(inside, by), on=by, nulls_equal=True)
        .rename({"covered_ns": "busy_ns"})
        .join(windows.select("rank", "device_id", window=window), on=["rank", "device_id"])
        .with_columns(window_pct=(100 * pl.col("busy_ns") / pl.col("window")).fill_nan(0.0))
        .drop("window")
        .sort(by)
    )
