"""What each kind and size of communication takes, and how fast its bytes move.

Bandwidths are those of nccl-tests (NVIDIA/nccl-tests, doc/PERFORMANCE.md): the algorithm bandwidth
is size / time, where the size of an all-gather, a reduce-scatter and an all-to-all is that of the
whole array; the bus bandwidth is that times 2(n−1)/n for an all-reduce, (n−1)/n for those three, 1
for broadcast, reduce, send and receive, n being the ranks of the group. Bus bandwidth is what
compares with the link's peak, whatever n is.

The time of one operation is the shortest that any of its ranks took, where the ranks' kernels
could be matched: the others' kernels also wait for the last to come. Where they could not, it is
each kernel's own, waiting included, and the bandwidth is a lower bound: see `time_is`.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.window import select_starting_in
from sightline.core.model.columns import duration, number, pct, rate, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.classes import COMMUNICATION, classify_run
from sightline.timeline.collectives import (
    bus_factor,
    describe_collectives,
    match_collectives,
)

ANALYSIS = Analysis(
    "communication",
    "What does each kind and size of communication take, and how fast is it?",
    (
        text("op", "kind of operation; without metadata, the kernel's name", required=True),
        text("group", "process group"),
        number("group_size", "ranks in the group"),
        text("dtype", "element type"),
        size("bytes", "size of one operation: its whole array"),
        number("operations", "operations; those of several ranks that were matched count once"),
        duration("mean_ns", "mean time of an operation, as time_is says"),
        text("time_is", "transfer: without waiting for other ranks; kernel: may include it"),
        rate("algorithm_bandwidth_gb_per_s", "bytes / mean time"),
        rate("bus_bandwidth_gb_per_s", "algorithm bandwidth × the factor of nccl-tests"),
        duration("min_ns", "shortest time of an operation"),
        duration("max_ns", "longest time of an operation"),
        number("kernels", "kernels, over all ranks"),
        duration("kernel_ns", "sum of the kernels' durations, over all ranks"),
        pct("kernel_pct", "kernel_ns, % of all rows'"),
    ),
    needs=("device_ops",),
    notes=(
        "Bandwidths as nccl-tests defines them; where time_is 'kernel' they are lower bounds.",
        "Counted is communication that starts in the window. Sizes are known where the recording "
        "carries the collectives' metadata.",
    ),
)

_KEY = ["op", "group", "group_size", "dtype", "bytes"]


def run(run: Run) -> pl.DataFrame:
    """One row per kind, group, type and size, the largest sum of durations first."""
    ops = classify_run(run)
    ops = select_starting_in(ops.filter(pl.col("class_") == COMMUNICATION), run.ask("windows"))
    known = describe_collectives(run.table("collectives")).select("device_op_id", *_KEY)
    met = match_collectives(ops, run.table("collectives")).select("device_op_id", "meeting")
    rows = (
        ops.select("device_op_id", "name", ns=pl.col("end_ns") - pl.col("start_ns"))
        .join(known, on="device_op_id", how="left", maintain_order="left")
        .join(met, on="device_op_id", how="left", maintain_order="left")
        .with_columns(
            op=pl.coalesce("op", "name"),
            # What was not matched is an operation by itself.
            one=pl.coalesce("meeting", -1 - pl.col("device_op_id")),
        )
    )
    each = rows.group_by(*_KEY, "one").agg(
        kernels=pl.len(),
        kernel_ns=pl.col("ns").sum(),
        ns=pl.col("ns").min(),
        matched=pl.col("meeting").is_not_null().all(),
    )
    table = each.group_by(_KEY).agg(
        pl.col("kernels", "kernel_ns").sum(),
        operations=pl.len(),
        mean=pl.col("ns").mean(),
        min_ns=pl.col("ns").min(),
        max_ns=pl.col("ns").max(),
        matched=pl.col("matched").all(),
    )
    rate_ = pl.when(pl.col("mean") > 0).then(pl.col("bytes") / pl.col("mean"))  # bytes/ns = GB/s
    return (
        table.with_columns(algorithm_bandwidth_gb_per_s=rate_)
        .with_columns(
            mean_ns=pl.col("mean").round().cast(pl.Int64),
            kernel_pct=100 * pl.col("kernel_ns") / pl.col("kernel_ns").sum(),
            time_is=pl.when("matched").then(pl.lit("transfer")).otherwise(pl.lit("kernel")),
            bus_bandwidth_gb_per_s=pl.col("algorithm_bandwidth_gb_per_s")
            * bus_factor(pl.col("op"), pl.col("group_size")),
        )
        .sort("kernel_ns", *_KEY, descending=[True, *[False] * len(_KEY)], nulls_last=True)
        .select(c.name for c in ANALYSIS.columns)
    )
