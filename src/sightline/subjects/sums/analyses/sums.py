"""What a profiler added up, by name: the run that is judged, all of its processes together."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import duration, number, pct, real, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.sums import select_sums

ANALYSIS = Analysis(
    "sums",
    "What did a profiler add up, by name, and at which rate were copies?",
    (
        text(
            "what",
            "a device's kernel, memcpy, memset, page faults or range, or a call's layer",
            required=True,
        ),
        text("name", "name as printed", required=True),
        number("calls", "how many"),
        duration("total_ns", "all together"),
        pct("total_pct", "share of what is of the same kind"),
        duration("mean_ns", "mean, rounded"),
        duration("max_ns", "the longest"),
        size("bytes", "all together, of copies and memsets where sizes were printed"),
        real("gb_per_s", "bytes by total time", "GB/s"),
    ),
    needs=("call_sums",),
    notes=("Where a text holds several runs, this is one of them: `summed_runs` says which.",),
)
# The GPU's work first, then the API's calls: what the operating system's idle threads wait is long.
_ORDER = {"kernel": 0, "memcpy": 1, "memset": 2, "page faults": 3, "runtime": 4, "driver": 5}


def run(run: Run) -> pl.DataFrame:
    """One row per kind and name, the longest of each kind first."""
    named = select_sums(run).select(
        pl.coalesce("category", "layer", "kind").cast(pl.String).alias("what"),
        pl.col("name").cast(pl.String),
        "calls",
        "duration_ns",
        "longest_duration_ns",
        "bytes",
    )
    ns, sized = pl.col("total_ns"), pl.col("bytes")
    added = named.group_by("what", "name").agg(
        pl.when(pl.col("calls").is_not_null().any()).then(pl.col("calls").sum()).alias("calls"),
        pl.col("duration_ns").sum().alias("total_ns"),
        pl.col("longest_duration_ns").max().alias("max_ns"),
        pl.when(sized.is_not_null().any()).then(sized.sum()).alias("bytes"),
    )
    whole = ns.sum().over("what")
    return (
        added.with_columns(
            total_pct=pl.when(whole > 0).then(100 * ns / whole),
            mean_ns=pl.when(pl.col("calls") > 0)
            .then((ns / pl.col("calls")).round())
            .cast(pl.Int64),
            gb_per_s=pl.when(ns > 0).then(sized / ns),
            order=pl.col("what").replace_strict(_ORDER, default=len(_ORDER)),
        )
        .sort("order", "what", -ns, "name")
        .select(column.name for column in ANALYSIS.columns)
    )
