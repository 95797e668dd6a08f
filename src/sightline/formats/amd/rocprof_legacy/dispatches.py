"""rocprof's rows and rocprofv2's fields of kernels, a column each: what is known of each kernel."""

from __future__ import annotations

import polars as pl

from sightline.formats import _rocm

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
    known = {ours: _number(kernels, theirs) for ours, theirs in _DISPATCH.items()}
    registers = pl.DataFrame([_number(kernels, names).alias(names[0]) for names in _VGPRS])
    known["vgprs"] = registers.select(
        pl.when(~pl.all_horizontal(pl.all().is_null())).then(pl.sum_horizontal(pl.all()))
    ).to_series()
    flat = {f"{w}_{a}": pl.lit(1, pl.Int64) for w in ("work_items", "workgroup") for a in "yz"}
    empty = pl.lit(None, pl.Int64)
    return pl.DataFrame({**known, "name": _list_names(kernels)}).select(
        *(c if c in known else flat.get(c, empty).alias(c) for c in _rocm.DISPATCH),
        "name",
        mangled_name=pl.lit(None, pl.String),
    )


def list_counters(kernels: pl.DataFrame) -> list[str]:
    """The columns that are hardware counters."""
    return [column for column in kernels.columns if column.lower() not in _NO_COUNTERS]


def list_counts(kernels: pl.DataFrame) -> pl.DataFrame:
    """What else has a number for a kernel is a hardware counter: `metric`, `value`, when, where."""
    counters = list_counters(kernels)
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


def _list_names(kernels: pl.DataFrame) -> pl.Series:
    """The kernels' names, without what the linker adds; each different one is looked at once."""
    names = _first(kernels, _NAMES).cast(pl.String)
    different = names.unique()
    plain = different.str.strip_chars('"').str.replace(r"(?: \[clone \.kd\]|\.kd)$", "")
    plain = plain.set(plain == "", None)
    return names.replace_strict(different, plain, return_dtype=pl.String)


def _first(kernels: pl.DataFrame, names: tuple[str, ...]) -> pl.Series:
    found = [pl.col(name).cast(pl.String) for name in names if name in kernels.columns]
    none = pl.repeat(None, kernels.height, dtype=pl.String)
    return kernels.select(pl.coalesce(found) if found else none).to_series()


def _number(kernels: pl.DataFrame, names: tuple[str, ...]) -> pl.Series:
    """A whole number of at most 18 digits, whatever its column holds."""
    text = _first(kernels, names)
    whole = text.cast(pl.Int64, strict=False)
    if whole.null_count() > text.null_count():  # blanks around it?
        whole = text.str.strip_chars().cast(pl.Int64, strict=False)
    beyond = ~whole.is_between(0, 10**18 - 1)
    return whole.set(beyond, None) if beyond.any() else whole
