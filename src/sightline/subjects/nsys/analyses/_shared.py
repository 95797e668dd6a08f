"""Parts that the reports named after `nsys stats` share: their columns, sums, names, times.

Column names, their order and what they count are Nsight Systems' own ("Report Scripts" in its
user guide), so that scripts go on working. Values are not rounded: nsys prints averages with one
decimal and sizes with three.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows, take_rows
from sightline.core.algebra.trees import find_nearest_ancestor
from sightline.core.algebra.window import host_in, select_starting_in
from sightline.core.model.columns import Column, number, pct, real, text
from sightline.core.model.declare import Param
from sightline.core.model.run import Run
from sightline.errors import MissingDataError

MB = 1_000_000  # nsys prints 4,194,304 bytes as 4.194 MB
SHARE_NOTE = "Time (%) is a share of the rows listed, not of the run's time."
OVERLAP_NOTE = "Operations that ran at the same time are each counted."

NAMES = Param("names", "demangled", "kernel names: demangled, base (short) or mangled")
NVTX_NAME = Param(
    "nvtx_name", 0, "1: the innermost NVTX push/pop range around a kernel's launch before its name"
)
ROWS = Param("rows", 50, "how many rows at most; 0 for all")

# What nsys calls the kinds of MPI calls.
MPI_SOURCES = {
    "p2p": "p2p",
    "collective": "collectives",
    "start_wait": "startwait",
    "other": "other",
}

_KINDS = {
    "pageable": "Pageable",
    "pinned": "Pinned",
    "device": "Device",
    "array": "Array",
    "managed": "Managed",
    "device static": "Device Static",
    "managed static": "Managed Static",
    "host": "Host",
    "unified": "Managed",
}
_DIRECTIONS = {"H": "Host", "D": "Device", "A": "Array", "P": "Peer"}


def declare_time_sum(count: str, *last: Column) -> tuple[Column, ...]:
    """Columns of a summary of durations; `count` is what nsys calls the number of rows there."""
    return (
        pct("Time (%)", "Total Time, % of its sum over the rows"),
        number("Total Time (ns)", "sum of the durations", "ns"),
        number(count, "how many"),
        real("Avg (ns)", "mean duration", "ns"),
        real("Med (ns)", "median duration", "ns"),
        number("Min (ns)", "shortest", "ns"),
        number("Max (ns)", "longest", "ns"),
        real("StdDev (ns)", "standard deviation of the sample; 0 for a single one", "ns"),
        *last,
    )


def sum_durations(
    frame: pl.DataFrame, count: str, by: list[str], value: str = "ns"
) -> pl.DataFrame:
    """The summary itself, largest total first; `frame` has the columns `by` and `value`."""
    sums = (
        frame.group_by(by)
        .agg(*describe_column(value, ""), pl.len().alias(count))
        .rename({"Total": "Total Time (ns)"})
        .rename({k: f"{k} (ns)" for k in ("Avg", "Med", "Min", "Max", "StdDev")})
    )
    total = pl.col("Total Time (ns)")
    return sums.with_columns((100 * total / total.sum()).fill_nan(0.0).alias("Time (%)")).sort(
        "Total Time (ns)", *by, descending=[True] + [False] * len(by), nulls_last=True
    )


def describe_column(value: str, prefix: str) -> list[pl.Expr]:
    """Total, Avg, Med, Min, Max and StdDev of a column, each name behind a prefix."""
    column = pl.col(value)
    return [
        column.sum().alias(f"{prefix}Total"),
        (column.sum() / column.count()).alias(f"{prefix}Avg"),
        column.median().alias(f"{prefix}Med"),
        column.min().alias(f"{prefix}Min"),
        column.max().alias(f"{prefix}Max"),
        # nsys has 0.0 for one value.
        pl.when(column.count() > 0).then(column.std().fill_null(0.0)).alias(f"{prefix}StdDev"),
    ]


def list_device_ops(run: Run, *kinds: str) -> pl.DataFrame:
    """Device operations of these kinds in the window, with `ns`, their duration."""
    ops = run.table("device_ops")
    if run.window is not None:
        ops = select_starting_in(ops, run.ask("windows"))
    return ops.filter(pl.col("kind").is_in(list(kinds))).with_columns(
        ns=pl.col("end_ns") - pl.col("start_ns")
    )


def list_host_ops(run: Run, *layers: str) -> pl.DataFrame:
    """Host ranges of these layers in the window, with `ns`, their duration."""
    host = run.table("host_ops")
    if run.window is not None:
        host = host.filter(host_in(host, run.ask("windows"), whole_recording=False))
    return host.filter(pl.col("layer").is_in(list(layers))).with_columns(
        ns=pl.col("end_ns") - pl.col("start_ns")
    )


def require_rows(frame: pl.DataFrame, report: str, what: str, hint: str) -> pl.DataFrame:
    """The frame; an error where the recording has nothing of the kind: that is no empty answer."""
    if frame.is_empty():
        raise MissingDataError(
            f"'{report}' cannot be answered", why=f"the recording has no {what}", hint=hint
        )
    return frame


def move_to_session_time(frame: pl.DataFrame, run: Run, *columns: str) -> pl.DataFrame:
    """The frame with these times as its recording has them, which is what nsys prints."""
    offsets = run.table("recordings").select("recording_id", _offset="clock_offset_ns")
    return (
        frame.join(offsets, on="recording_id", how="left", maintain_order="left")
        .with_columns(pl.col(c) - pl.col("_offset").fill_null(0) for c in columns)
        .drop("_offset")
    )


def select_kernel_name(names: str) -> pl.Expr:
    """The kernel's name in the form that was asked for, or the nearest one that there is."""
    first = {"base": "short_name", "mangled": "mangled_name"}.get(names, "name")
    return pl.coalesce(first, "name")


def add_kernel_name(run: Run, ops: pl.DataFrame, names: str, nvtx_name: int) -> pl.DataFrame:
    """Device operations with `kernel`, the name in the form that was asked for.

    With `nvtx_name`, "RANGE:NAME" where the launch lies in an NVTX push/pop range (nsys documents
    that the range is put before the name, not what stands between: the colon is ours).
    """
    ops = ops.with_columns(kernel=select_kernel_name(names))
    if not nvtx_name:
        return ops
    host = run.table("host_ops")
    ids = host.get_column("host_op_id")
    known = host.filter(
        pl.col("layer").is_in(["annotation", "step"])
        & (pl.col("range_kind").fill_null("pushpop") == "pushpop")
    ).get_column("host_op_id")
    around = find_rows(ids, find_nearest_ancestor(host, ops.get_column("launch_id"), known))
    label = take_rows(host.select(around="name"), around)
    return ops.hstack(label).with_columns(
        kernel=pl.when(pl.col("around").is_not_null())
        .then(pl.format("{}:{}", "around", "kernel"))
        .otherwise("kernel")
    )


def name_operation() -> pl.Expr:
    """What a copy or memset is called, by its direction; the same for all recordings' formats."""
    kind = pl.col("copy_kind")
    unified = pl.when(kind.str.starts_with("UVM ")).then(pl.lit("Unified ")).otherwise(pl.lit(""))
    pair = kind.str.strip_prefix("UVM ")
    ends = [
        pair.str.slice(at, 1).replace_strict(_DIRECTIONS, default=None, return_dtype=pl.String)
        for at in (0, 3)
    ]
    direction = pl.concat_str([unified, ends[0], pl.lit("-to-"), ends[1]]).fill_null("Unknown")
    return (
        pl.when(pl.col("kind") == "memset")
        .then(pl.lit("[CUDA memset]"))
        .otherwise(pl.format("[CUDA memcpy {}]", direction))
    )


def name_memory_kind(column: str) -> pl.Expr:
    """A kind of memory as nsys writes it."""
    return pl.col(column).replace_strict(_KINDS, default=None, return_dtype=pl.String)


def strip_api_version() -> pl.Expr:
    """An API call's name without the _v and four digits that nsys leaves out as well."""
    return pl.col("name").str.replace(r"_v\d{4}$", "")


def format_xyz(prefix: str) -> pl.Expr:
    """Three dimensions in one text, as nsys aligns them."""
    return pl.concat_str(
        [pl.col(f"{prefix}_{axis}").cast(pl.String).str.pad_start(4) for axis in "xyz"],
        separator=" ",
    )


# Up to this version nsys prints a range of the default domain as its text alone; newer ones put a
# colon before it. Its own tables of 2023.4.4 (corpus nsys/own_cpu) and 2024.6 (nsys/NVIDIA__Fuser)
# show it; what was printed by the versions between was not seen.
_LAST_WITHOUT_COLON = (2023, 4)


def name_range(run: Run) -> pl.Expr:
    """An NVTX range's domain and text, as the version of nsys that recorded it prints them."""
    versions = run.table("recordings").filter(pl.col("tool") == "Nsight Systems")
    parts = pl.col("tool_version").str.extract_groups(r"^(\d{4})\.(\d+)").struct.unnest()
    found = versions.select("recording_id", parts).cast(pl.Int64).iter_rows()
    old = [recording for recording, *version in found if _is_old(version)]
    named = pl.format("{}:{}", pl.col("domain").fill_null(""), "name")
    if not old:
        return named
    is_plain = pl.col("domain").is_null() & pl.col("recording_id").is_in(old)
    return pl.when(is_plain).then(pl.col("name").cast(pl.String)).otherwise(named)


def _is_old(version: list[int | None]) -> bool:
    return None not in version and tuple(version) <= _LAST_WITHOUT_COLON


def name_range_style() -> pl.Expr:
    """PushPop or StartEnd. Annotations of other formats nest, as PushPop does."""
    return (
        pl.when(pl.col("range_kind") == "startend")
        .then(pl.lit("StartEnd"))
        .otherwise(pl.lit("PushPop"))
    )


API_HINT = "Record with:  nsys profile --trace=cuda,nvtx"
UM_HINT = "Record with:  nsys profile --cuda-um-cpu-page-faults=true --cuda-um-gpu-page-faults=true"
NVTX_HINT = "Mark ranges with NVTX, and record with:  nsys profile --trace=cuda,nvtx"


def list_nvtx_ranges(run: Run, *, kinds: tuple[str, ...] = ("pushpop", "startend")) -> pl.DataFrame:
    """Annotations that are ranges, with `ns`, `Style` and `Range`."""
    return (
        list_host_ops(run, "annotation", "step")
        .filter(pl.col("range_kind").fill_null("pushpop").is_in(list(kinds)))
        .with_columns(name_range_style().alias("Style"), name_range(run).alias("Range"))
    )


def format_address(column: str | pl.Expr) -> pl.Expr:
    """An address as text: 0x7F9C80000000."""
    value = pl.col(column) if isinstance(column, str) else column
    return value.map_elements(lambda v: f"0x{v % 2**64:X}", return_dtype=pl.String)


def limit_rows(frame: pl.DataFrame, rows: int) -> pl.DataFrame:
    """The first rows, or all where none were named."""
    return frame.head(rows) if rows > 0 else frame


def declare_name(name: str, doc: str) -> Column:
    """The text that names a row."""
    return text(name, doc, required=True)
