"""Ranges from their begins and ends, and the layer of host_ops that each belongs to."""

from __future__ import annotations

import polars as pl

from sightline.formats._pairs import pair_ends
from sightline.formats._rocm import name_layer

_BEGIN, _END, _INSTANT, _COUNTER, _COMPLETE = 1, 2, 3, 4, 5
# Categories of torch.profiler's (libkineto/src/ActivityType.cpp), which its traces carry here, too.
_LAYERS = {
    "cpu_op": "op",
    "collective_comm": "op",
    "user_annotation": "annotation",
    "python_function": "python",
    "cuda_runtime": "runtime",
    "xpu_runtime": "runtime",
    "mtia_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "cuda_driver": "driver",
    "xpu_driver": "driver",
    "overhead": "overhead",
}
# Of rocprofv3 and rocprof-sys: their names begin so, with "rocm_" before them in the latter.
_ROCM = ("hip", "hsa", "marker", "roctx", "rccl", "mpi", "ompt", "rocdecode", "rocjpeg", "python")
_STEP = r"^ProfilerStep[#*]?\d*$"


def read_prints(prints: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    """Marks that Android's programs write into ftrace, as events like all others.

    `B|pid|name` begins a range, `E` ends it, `C|pid|name|value` counts, `S` and `F` begin and end
    an asynchronous one (system/core/libcutils/include/cutils/trace.h).
    """
    parts = pl.col("text").str.strip_chars("\n\0").str.splitn("|", 4)
    word = parts.struct.field("field_0")
    types = {"B": _BEGIN, "E": _END, "S": _BEGIN, "F": _END, "C": _COUNTER, "I": _INSTANT}
    is_async = word.is_in(["S", "F"])
    split = prints.select(
        "time",
        "tid",
        type=word.replace_strict(types, default=None, return_dtype=pl.Int64),
        said_pid=parts.struct.field("field_1").cast(pl.Int64, strict=False),
        name=parts.struct.field("field_2"),
        value=pl.when(word == "C").then(
            parts.struct.field("field_3").cast(pl.Float64, strict=False)
        ),
        cookie=pl.when(is_async).then(
            pl.concat_str(
                parts.struct.field("field_2"), parts.struct.field("field_3"), separator="|"
            )
        ),
    ).drop_nulls("type")
    owners = threads.select("tid", "pid").unique("tid", keep="first")
    return split.join(owners, on="tid", how="left", maintain_order="left").select(
        "time",
        "type",
        "name",
        "value",
        pid=pl.coalesce("pid", "said_pid"),
        tid=pl.when(pl.col("cookie").is_null()).then("tid"),
        async_id=pl.col("cookie").rank("dense").cast(pl.Int64),
        category=pl.lit("atrace"),
    )


def close_slices(events: pl.DataFrame, tracks: pl.DataFrame) -> tuple[pl.DataFrame, int, int]:
    """One row per range and instant, with `event`, its row in `events`; and how many are open.

    And how many ends close nothing: of ranges that began before the trace, or of damaged ones.

    An end closes the innermost range that is open on its track; one that finds none is ignored. A
    range that nothing closes ends with the trace.
    """
    placed = (
        events.with_row_index("event")
        .filter(pl.col("type").is_in([_BEGIN, _END, _INSTANT, _COMPLETE]))
        .with_columns(pl.col("event").cast(pl.Int64))
        .join(tracks, on="track", how="left", maintain_order="left")
        .with_columns(
            pid=pl.coalesce("owner_pid", "pid"),
            tid=pl.when(pl.col("async_id").is_null()).then(pl.coalesce("owner_tid", "tid")),
        )
    )
    is_thread = pl.col("tid").is_not_null() & (
        pl.col("track").is_null() | pl.col("owner_tid").is_not_null()
    )
    lane = pl.struct(
        pl.when(is_thread).then(None).otherwise("track"),
        pl.when(is_thread | pl.col("track").is_null()).then("pid"),
        pl.when(is_thread).then("tid"),
        "async_id",
    )
    placed = placed.with_columns(lane=lane.rank("dense"), is_thread=is_thread)
    paired, unclosed, unopened = _pair(placed.filter(pl.col("type").is_in([_BEGIN, _END])), events)
    length = pl.when(pl.col("type") == _COMPLETE).then(pl.col("duration_us").clip(0, 2**50) * 1000)
    alone = placed.filter(pl.col("type").is_in([_INSTANT, _COMPLETE])).with_columns(
        end_ns=pl.col("time") + length.fill_null(0)
    )
    found = pl.concat([paired, alone]).sort("event").rename({"time": "start_ns"})
    return found, unclosed, unopened


def _pair(ends: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, int, int]:
    """Begins with `end_ns`, how many nothing closes, and how many ends close nothing."""
    begins, unopened = pair_ends(ends.with_columns(is_begin=pl.col("type") == _BEGIN))
    last = events.get_column("time").max()
    unclosed = begins.get_column("end_ns").null_count()
    closed = begins.with_columns(pl.col("end_ns").fill_null(pl.lit(last, pl.Int64)))
    return closed.drop("is_begin"), unclosed, unopened


def name_layers(slices: pl.DataFrame) -> pl.DataFrame:
    """The slices with `layer`, by their category; what programs mark themselves is annotation."""
    kinds = slices.get_column("category").unique().drop_nulls().to_list()
    layers = {}
    for kind in kinds:
        plain = kind.lower().removeprefix("rocm_")
        if kind in _LAYERS:
            layers[kind] = _LAYERS[kind]
        elif plain.startswith(_ROCM):
            layers[kind] = name_layer(plain)
    layer = pl.col("category").replace_strict(layers, default="annotation", return_dtype=pl.String)
    is_step = (layer == "annotation") & pl.col("name").str.contains(_STEP)
    return slices.with_columns(layer=pl.when(is_step).then(pl.lit("step")).otherwise(layer))
