"""When threads compiled, tuned or loaded code while a device waited: by ranges, or inferred."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.timeline.host_ranges import list_compiler_ranges
from sightline.timeline.idle import list_idle_gaps
from sightline.timeline.runtimes import RANGE, find_runtimes

_SPAN = ["rank", "pid", "tid", "start_ns", "end_ns"]
_GAP = ["rank", "device_id", "start_ns"]


def list_compiling_spans(run: Run) -> pl.DataFrame:
    """When threads compiled: rank, pid, tid, start_ns, end_ns, of ranges and of inferred gaps."""
    inferred = list_idle_gaps(run).filter(
        pl.col("runtime").is_not_null(), pl.col("pid").is_not_null()
    )
    spans = inferred.select(*_SPAN[:3], "start_ns", end_ns="waited_ns")
    return pl.concat([list_compiler_ranges(run).select(_SPAN), spans])


def name_gap_runtimes(run: Run, gaps: pl.DataFrame) -> pl.Series:
    """For each part of a gap (rows of idle_rules) its row of `list_runtimes`, or null."""
    names = gaps.get_column("host_op").unique().drop_nulls()
    known = pl.DataFrame({"host_op": names, "named": find_runtimes(names, RANGE)})
    inferred = list_idle_gaps(run).select(*_GAP, "runtime").unique(_GAP)
    return (
        gaps.join(known, on="host_op", how="left", maintain_order="left")
        .join(inferred, on=_GAP, how="left", maintain_order="left")
        .select(
            pl.when(pl.col("cause") == "compiling").then(pl.coalesce("named", "runtime")).alias("r")
        )
        .to_series()
    )
