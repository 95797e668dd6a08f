"""What the host did: API calls, and what CUDA and CUPTI cost on its threads."""

from __future__ import annotations

import polars as pl

from sightline.algebra.lookup import find_first_rows
from sightline.algebra.nesting import nest_ranges
from sightline.importers.cupti import codes
from sightline.importers.cupti.codes import decode_codes, keep_known
from sightline.importers.cupti.device import TIME_LIMIT
from sightline.importers.cupti.file import CuptiFile

_EMPTY = {
    "start_ns": pl.Int64, "end_ns": pl.Int64, "pid": pl.Int64, "tid": pl.Int64,
    "layer": pl.String, "name": pl.String, "correlation_id": pl.Int64,
}  # fmt: skip


def list_host_ops(file: CuptiFile) -> tuple[pl.DataFrame, int]:
    """Rows of `host_ops`, nested; and how many calls had not ended when they were handed over."""
    parts = [
        _calls(file, "runtime_calls", "runtime", codes.RUNTIME),
        _calls(file, "driver_calls", "driver", codes.DRIVER),
        _overhead(file),
    ]
    ops = pl.concat([pl.DataFrame(schema=_EMPTY), *parts], how="diagonal_relaxed")
    is_timed = pl.col("start_ns").is_between(1, TIME_LIMIT) & pl.col("end_ns").is_between(
        pl.col("start_ns"), TIME_LIMIT
    )
    kept = ops.filter(is_timed).with_columns(pid=pl.lit(file.pid, pl.Int64))
    return nest_ranges(kept), ops.height - kept.height


def _calls(file: CuptiFile, table: str, layer: str, domain: int) -> pl.DataFrame:
    frame = file.frame(table)
    if frame.is_empty():
        return pl.DataFrame()
    known = file.frame("call_names").filter(pl.col("domain") == domain)
    names = dict(known.select("cbid", "name").iter_rows())
    return frame.select(
        start_ns="start",
        end_ns="end",
        tid="tid",
        layer=pl.lit(layer),
        name=pl.col("cbid")
        .replace_strict(names, default=None, return_dtype=pl.String)
        .fill_null("unknown call"),
        correlation_id=keep_known("correlation"),
        return_value="result",
    )


def _overhead(file: CuptiFile) -> pl.DataFrame:
    frame = file.frame("overhead")
    if frame.is_empty():
        return pl.DataFrame()
    kind = decode_codes("kind", codes.OVERHEAD_KINDS).fill_null("Unknown")
    # In user-defined records the object's kind is not told, and the thread is 0 where it is none.
    is_thread = pl.col("object_kind").is_in([0, codes.OBJECT_THREAD]) & (pl.col("tid") > 0)
    return frame.select(
        start_ns="start",
        end_ns="end",
        tid=pl.when(is_thread).then("tid"),
        layer=pl.lit("overhead"),
        name=kind,
        category=kind,
        correlation_id=keep_known("correlation"),
    )


def add_call(frame: pl.DataFrame, host: pl.DataFrame, column: str) -> pl.DataFrame:
    """The frame with the id of the outermost call that has its correlation id."""
    if frame.is_empty():
        return frame
    calls = host.filter(pl.col("layer").is_in(["runtime", "driver"]))
    rows = find_first_rows(
        calls.select("correlation_id"), frame.select("correlation_id"), "correlation_id", ()
    )
    return frame.with_columns(calls.get_column("host_op_id").gather(rows).alias(column))
