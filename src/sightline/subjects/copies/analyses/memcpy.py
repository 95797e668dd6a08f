"""What was copied and filled, in which direction, how fast."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.window import select_starting_in
from sightline.core.model.columns import RANK, duration, number, pct, rate, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

_BY = ["rank", "device_id", "kind", "copy_kind", "src_kind", "dst_kind"]
_COLUMNS = (*_BY, "start_ns", "end_ns", "bytes")

ANALYSIS = Analysis(
    "memcpy",
    "What was copied, in which direction, how fast?",
    (
        RANK,
        number("device_id", "device", required=True),
        text("kind", "memcpy or memset", required=True),
        text("copy_kind", "HtoD, DtoH, DtoD, HtoH or PtoP"),
        text("src_kind", "source memory"),
        text("dst_kind", "destination memory"),
        number("copies", "how many"),
        duration("total_ns", "sum of their durations"),
        pct("window_pct", "total_ns, % of the device's window"),
        size("bytes", "sum of their sizes"),
        size("median_bytes", "median size"),
        rate("gb_per_s", "bytes over total_ns, for the copies whose size is known"),
    ),
    needs=("device_ops",),
    notes=("Copies that ran at the same time are each counted.",),
    worst="total_ns",
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank, device, direction and pair of memory kinds."""
    length = pl.col("end_ns") - pl.col("start_ns")
    sized = pl.col("bytes").is_not_null()
    return (
        select_starting_in(run.columns("device_ops", _COLUMNS), run.ask("windows"))
        .filter(pl.col("kind").is_in(["memcpy", "memset"]))
        .join(run.ask("windows"), on=["rank", "device_id"], maintain_order="left")
        .group_by(_BY)
        .agg(
            copies=pl.len(),
            total_ns=length.sum(),
            window=(pl.col("window_end_ns") - pl.col("window_start_ns")).first(),
            bytes=pl.when(sized.any()).then(pl.col("bytes").sum()),
            median_bytes=pl.col("bytes").median().round().cast(pl.Int64),
            # bytes per ns is 10⁹ bytes per second
            gb_per_s=pl.col("bytes").sum() / length.filter(sized).sum(),
        )
        .with_columns(
            window_pct=(100 * pl.col("total_ns") / pl.col("window")).fill_nan(0.0),
            gb_per_s=pl.when(pl.col("gb_per_s").is_finite()).then("gb_per_s"),
        )
        .drop("window")
        .sort(
            "rank", "device_id", "total_ns", *_BY[2:], descending=[False, False, True] + [False] * 4
        )
    )
