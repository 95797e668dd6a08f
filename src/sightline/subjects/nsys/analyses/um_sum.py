"""Unified memory by address: nsys calls it um_sum."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, real, text
from sightline.core.model.declare import Analysis, Param
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import (
    MB,
    UM_HINT,
    format_address,
    limit_rows,
    list_device_ops,
    require_rows,
)

ANALYSIS = Analysis(
    "um_sum",
    "Which pages of unified memory moved, and why? (as nsys stats)",
    (
        text("Virtual Address", "address of the page", required=True),
        real("HtoD Migration Size (MB)", "moved to the device", "MB"),
        real("DtoH Migration Size (MB)", "moved to the host", "MB"),
        number("CPU Page Faults", "page faults of the CPU"),
        number("GPU PageFaults", "page faults of the GPU"),
        real("Migration Throughput (MB/s)", "size over duration of the moves", "MB/s"),
    ),
    params=(Param("rows", 10, "how many rows at most; 0 for all"),),
    notes=("Recorded with --cuda-um-cpu-page-faults=true and --cuda-um-gpu-page-faults=true.",),
)


def run(run: Run, *, rows: int = 10) -> pl.DataFrame:
    """One row per address, most bytes moved first, then most faults."""
    moved = list_device_ops(run, "memcpy").filter(
        pl.col("copy_kind").is_in(["UVM HtoD", "UVM DtoH"]) & pl.col("address").is_not_null()
    )
    to_device, to_host = (pl.col("copy_kind") == kind for kind in ("UVM HtoD", "UVM DtoH"))
    sizes = moved.group_by("address").agg(
        to_device=pl.col("bytes").filter(to_device).sum(),
        to_host=pl.col("bytes").filter(to_host).sum(),
        ns=pl.col("ns").sum(),
    )
    faults = (
        run.table("page_faults")
        .group_by("address")
        .agg(
            cpu=pl.col("count").filter(pl.col("side") == "cpu").sum(),
            gpu=pl.col("count").filter(pl.col("side") == "gpu").sum(),
        )
    )
    both = require_rows(
        sizes.join(faults, on="address", how="full", coalesce=True),
        "um_sum",
        "unified memory that moved or faulted",
        UM_HINT,
    )
    total = pl.col("to_device").fill_null(0) + pl.col("to_host").fill_null(0)
    count = pl.col("cpu").fill_null(0) + pl.col("gpu").fill_null(0)
    ordered = both.sort(total, count, "address", descending=[True, True, False])
    return limit_rows(ordered, rows).select(
        format_address("address").alias("Virtual Address"),
        (pl.col("to_device") / MB).alias("HtoD Migration Size (MB)"),
        (pl.col("to_host") / MB).alias("DtoH Migration Size (MB)"),
        pl.col("cpu").alias("CPU Page Faults"),
        pl.col("gpu").alias("GPU PageFaults"),
        # bytes per ns are 10⁹ bytes per second
        pl.when(pl.col("ns") > 0)
        .then(total / pl.col("ns") * 1000)
        .alias("Migration Throughput (MB/s)"),
    )
