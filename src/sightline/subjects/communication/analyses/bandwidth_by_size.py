"""Bus bandwidth over message size: the curve that nccl-tests prints, measured or from a recording.

Of a log of nccl-tests each size is one row, with what it printed and the same computed from size
and time. Of a recorded job, matched collectives of one kind, size and group's size are one row:
`duration_ns` is their median transfer, from the last rank's start on. The two compare: what the job
reaches, and what the machine can.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import duration, number, pct, rate, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.roofline.hardware import find_gpu
from sightline.roofline.links import MACHINE, NETWORK, find_link, name_link
from sightline.timeline.collectives import bus_factor, list_collectives

ANALYSIS = Analysis(
    "bandwidth_by_size",
    "What bandwidth do collectives reach at each size?",
    (
        text("source", "benchmark, or recording", required=True),
        text("op", "all_reduce, all_gather, ...; null where a log does not show"),
        number("group_size", "ranks that take part"),
        text("link", "slowest link between them: machine or network"),
        text("placement", "of a benchmark: out-of-place or in-place"),
        size("bytes", "size of the whole array"),
        number("operations", "collectives of a recording"),
        duration("duration_ns", "time of one; of a recording the median transfer"),
        rate("algorithm_bandwidth_gb_per_s", "bytes / time"),
        rate("bus_bandwidth_gb_per_s", "algorithm bandwidth × the factor of nccl-tests"),
        rate("printed_gb_per_s", "the bus bandwidth that a benchmark printed"),
        rate("link_peak_gb_per_s", "what the GPU's links carry each way, within a machine"),
        pct("achieved_pct", "bus bandwidth, % of that peak"),
    ),
    notes=(
        "Decimal GB/s. A benchmark prints few digits of its time: the computed and the printed "
        "bandwidth differ by as much.",
    ),
)

_KEY = ["source", "op", "group_size", "link", "placement", "bytes"]


def run(run: Run) -> pl.DataFrame:
    """One row per source, kind, group's size and size, in that order."""
    parts = [_list_tests(run)]
    if run.rows("device_ops"):
        parts.append(_list_recorded(run))
    rate_ = pl.when(pl.col("duration_ns") > 0).then(pl.col("bytes") / pl.col("duration_ns"))
    return (
        pl.concat(parts, how="diagonal_relaxed")
        .with_columns(algorithm_bandwidth_gb_per_s=rate_)
        .with_columns(
            bus_bandwidth_gb_per_s=pl.col("algorithm_bandwidth_gb_per_s")
            * bus_factor(pl.col("op"), pl.col("group_size"))
        )
        .with_columns(
            achieved_pct=100 * pl.col("bus_bandwidth_gb_per_s") / pl.col("link_peak_gb_per_s")
        )
        .select(c.name for c in ANALYSIS.columns)
        .sort(_KEY, nulls_last=True, maintain_order=True)
    )


def _list_tests(run: Run) -> pl.DataFrame:
    tests = run.table("bandwidth_tests")
    peaks: dict[str, float | None] = {}
    for name in tests.get_column("device").drop_nulls().unique():
        gpu = find_gpu(name, None)
        link = None if gpu is None else gpu.number("link_bandwidth")
        peaks[name] = None if link is None else link / 1e9
    peak = pl.col("device").replace_strict(peaks, default=None, return_dtype=pl.Float64)
    within = pl.col("machines") == 1
    return tests.select(
        "op",
        "group_size",
        "placement",
        "bytes",
        "duration_ns",
        source=pl.lit("benchmark"),
        operations=pl.lit(None, pl.Int64),
        link=pl.when(within).then(pl.lit(MACHINE)).when(~within).then(pl.lit(NETWORK)),
        printed_gb_per_s="bus_bandwidth_gb_per_s",
        link_peak_gb_per_s=pl.when(within).then(peak),
    )


def _list_recorded(run: Run) -> pl.DataFrame:
    peak = find_link(run)
    key = ["op", "group_size", "link", "bytes"]
    return (
        list_collectives(run)
        .drop_nulls("bytes")
        .with_columns(
            op=pl.coalesce("kind", "op"), link=name_link(pl.col("members"), pl.col("group_size"))
        )
        .group_by(key)
        .agg(operations=pl.len(), duration_ns=pl.col("transfer_ns").median().round().cast(pl.Int64))
        .with_columns(
            source=pl.lit("recording"),
            placement=pl.lit(None, pl.String),
            printed_gb_per_s=pl.lit(None, pl.Float64),
            link_peak_gb_per_s=pl.when(pl.col("link") == MACHINE).then(
                pl.lit(peak and peak / 1e9, pl.Float64)
            ),
        )
    )
