"""Kernels that the host launched, where only the launches were seen."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, real, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

_SIZES = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "dynamic_shared_bytes"]

ANALYSIS = Analysis(
    "requested_kernels",
    "Which kernels did the host launch, how often, and in what sizes?",
    (
        RANK,
        text("name", "the kernel, or what the launch called it by where its name is not known"),
        number("grid_x", "blocks in x"),
        number("grid_y", "blocks in y"),
        number("grid_z", "blocks in z"),
        number("block_x", "threads of a block in x"),
        number("block_y", "threads of a block in y"),
        number("block_z", "threads of a block in z"),
        size("dynamic_shared_bytes", "dynamic shared memory of a block"),
        number("launches", "launches that succeeded"),
        number("failed", "launches that did not"),
        real("launches_per_s", "launches per second between the rank's first and last call"),
        duration("call_ns", "all the launching calls together: not the kernels' own time"),
    ),
    needs=("requests", "host_ops"),
    notes=("Launches were seen on the CPU; how long a kernel ran is in no column.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank, kernel and size, the most frequent first."""
    calls = run.table("host_ops", ["host_op_id", "rank", "start_ns", "end_ns"])
    spans = calls.group_by("rank").agg(span=pl.col("end_ns").max() - pl.col("start_ns").min())
    handle = pl.format("kernel {}", "handle")
    failed = pl.col("return_value").fill_null(0) != 0
    by = ["rank", "name", *_SIZES]
    return (
        run.table("requests")
        .filter(pl.col("kind") == "kernel")
        .with_columns(name=pl.coalesce("name", handle))
        .join(calls.drop("rank"), on="host_op_id", how="left", maintain_order="left")
        .group_by(by)
        .agg(
            launches=(~failed).sum().cast(pl.Int64),
            failed=failed.sum().cast(pl.Int64),
            call_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
        )
        .join(spans, on="rank", how="left")
        .with_columns(
            launches_per_s=pl.when(pl.col("span") > 0).then(
                1e9 * pl.col("launches") / pl.col("span")
            )
        )
        .sort(by)
        .sort("rank", "launches", descending=[False, True], maintain_order=True)
        .select(column.name for column in ANALYSIS.columns)
    )
