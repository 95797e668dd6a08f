"""Counters of rocprof without times (`-i pmc.txt` alone): its kernels as profiled ones."""

from __future__ import annotations

import polars as pl

from sightline.formats.amd.rocprof_legacy.dispatches import list_counters, list_dispatches


def is_untimed(kernels: pl.DataFrame) -> bool:
    """Whether there are kernels with counters, and rocprof was not asked when they ran."""
    times = {"BeginNs", "EndNs", "Begin_Timestamp", "End_Timestamp"} & set(kernels.columns)
    return bool(kernels.height and not times and list_counters(kernels))


def make_profiled(kernels: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """`profiled_kernels`, `kernel_metrics` and `devices`; a grid is one number of work-items."""
    own = list_dispatches(kernels).with_columns(kernel_id=pl.int_range(pl.len(), dtype=pl.Int64))
    items, size = pl.col("work_items_x"), pl.col("workgroup_x")
    gpus = own.get_column("agent").fill_null(0).unique().sort()
    numbers = pl.Series(range(gpus.len()), dtype=pl.Int64)
    device = pl.col("agent").fill_null(0).replace_strict(gpus, numbers, return_dtype=pl.Int64)
    profiled = own.select(
        "kernel_id",
        kind=pl.lit("kernel"),
        name=pl.col("name").fill_null("unnamed kernel"),
        device_id=device,
        grid_x=pl.when((size > 0) & (items > 0)).then(-(-items // size)),
        block_x=pl.when(size > 0).then(size),
        registers_per_thread="vgprs",
        static_shared_bytes="lds_bytes",
    ).with_columns(occurrence=pl.int_range(pl.len()).over("name", "grid_x", "block_x"))
    values = kernels.select(
        pl.col(name).cast(pl.String).cast(pl.Float64, strict=False)
        for name in list_counters(kernels)
    ).with_columns(kernel_id=own.get_column("kernel_id"))
    metrics = values.unpivot(index="kernel_id", variable_name="metric", value_name="value")
    known = metrics.filter(pl.col("value").is_finite()).sort("kernel_id", maintain_order=True)
    devices = pl.DataFrame({"device_id": numbers, "vendor": ["amd"] * numbers.len()})
    return {"profiled_kernels": profiled, "kernel_metrics": known, "devices": devices}
