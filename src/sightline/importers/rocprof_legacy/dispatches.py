"""rocprof's rows and rocprofv2's fields of kernels, a column each: what is known of each kernel."""

from __future__ import annotations

import polars as pl

from sightline.importers import _rocm

# rocprof's columns, and rocprofv2's fields, by ours.
_DISPATCH = {
    "start_ns": ("BeginNs", "Begin_Timestamp"),
    "end_ns": ("EndNs", "End_Timestamp"),
    "pid": ("pid", "Process_ID"),
    "agent": ("gpu-id", "GPU_ID"),
    "queue_id": ("queue-id", "Queue_ID"),
    "correlation_id": ("Correlation_ID",),
    "work_items_x": ("grd", "Grid_Size"),
    "workgroup_x": ("wgr", "Workgroup_Size"),
    "lds_bytes": ("lds", "LDS"),
    "scratch_bytes": ("scr", "Scratch_Size"),
}
_VGPRS = (("arch_vgpr", "Arch_VGPR"), ("accum_vgpr", "Accumulative_VGPR"))
_NAMES = ("KernelName", "Kernel_Name")
_NO_COUNTERS = {
    "index", "kernelname", "gpu-id", "queue-id", "queue-index", "pid", "tid", "grd", "wgr", "lds",
    "scr", "arch_vgpr", "accum_vgpr", "vgpr", "sgpr", "wave_size", "sig", "obj", "dispatchns",
    "beginns", "endns", "completens", "durationns", "dispatch_id", "gpu_id", "queue_id",
    "process_id", "thread_id", "grid_size", "workgroup_size", "scratch_size", "accumulative_vgpr",
    "kernel_name", "begin_timestamp", "end_timestamp", "correlation_id", "record_id",
}  # fmt: skip


def list_dispatches(kernels: pl.DataFrame) -> pl.DataFrame:
    """The kernels, with _rocm.DISPATCH and their names; numbers that are none are null."""
    registers = [_number(kernels, names) for names in _VGPRS]
    name = _first(kernels, _NAMES).cast(pl.String).str.strip_chars('"')
    plain = name.str.replace(r"(?: \[clone \.kd\]|\.kd)$", "")
    flat = {f"{w}_{a}": pl.lit(1, pl.Int64) for w in ("work_items", "workgroup") for a in "yz"}
    known = {ours: _number(kernels, theirs) for ours, theirs in _DISPATCH.items()} | flat
    known["vgprs"] = pl.when(pl.any_horizontal(r.is_not_null() for r in registers)).then(
        pl.sum_horizontal(registers)
    )
    empty = pl.lit(None, pl.Int64)
    return kernels.select(
        *((known.get(column, empty)).alias(column) for column in _rocm.DISPATCH),
        pl.when(plain != "").then(plain).alias("name"),
        pl.lit(None, pl.String).alias("mangled_name"),
    ).head(kernels.height)  # of no table at all, literals alone would be a row


def list_counts(kernels: pl.DataFrame) -> pl.DataFrame:
    """What else has a number for a kernel is a hardware counter: `metric`, `value`, when, where."""
    counters = [c for c in kernels.columns if c.lower() not in _NO_COUNTERS]
    place = {ours: _number(kernels, _DISPATCH[ours]) for ours in ("agent", "start_ns", "end_ns")}
    return (
        kernels.select(
            *(column.alias(f"_{name}") for name, column in place.items()),
            *(pl.col(c).cast(pl.String).cast(pl.Float64, strict=False) for c in counters),
        )
        .rename({f"_{name}": name for name in place})
        .unpivot(counters or None, index=list(place), variable_name="metric", value_name="value")
        .filter(pl.col("value").cast(pl.Float64).is_finite())
        .drop_nulls(("start_ns", "end_ns"))
        .select(
            "agent",
            "start_ns",
            "end_ns",
            pl.col("metric").cast(pl.String),
            pl.col("value").cast(pl.Float64),
        )
    )


def _first(kernels: pl.DataFrame, names: tuple[str, ...]) -> pl.Expr:
    found = [pl.col(name) for name in names if name in kernels.columns]
    return pl.coalesce(found) if found else pl.lit(None)


def _number(kernels: pl.DataFrame, names: tuple[str, ...]) -> pl.Expr:
    """A whole number of at most 18 digits, whatever its column holds."""
    text = _first(kernels, names).cast(pl.String).str.strip_chars()
    whole = text.cast(pl.Int64, strict=False)
    return pl.when(whole.is_between(0, 10**18 - 1)).then(whole)
