"""What the host did, by nvprof's tables: calls of the runtime and the driver, NVTX, overhead."""

from __future__ import annotations

from functools import cache

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.packaged_rows import read_rows
from sightline.formats._sqlite import SqliteFile

# CUpti_ActivityOverheadKind: what of it is the program's own cost, and what the profiler's.
_OVERHEAD = {
    1: "Driver JIT compiler (CUDA)",
    1 << 16: "Buffer flush (Profiler)",
    2 << 16: "Instrumentation (Profiler)",
    3 << 16: "Resource creation/destruction (Profiler)",
}
_ORDER = {"annotation": 0, "runtime": 1, "driver": 2, "overhead": 3}
# CUpti_ActivityFlag of a marker.
_INSTANT, _STARTS, _ENDS = 1, 2, 4
_THREAD = 2  # CUpti_ActivityObjectKind; process id, then thread id
_SHAPE = {
    "start_ns": pl.Int64, "end_ns": pl.Int64, "layer": pl.String, "name": pl.String,
    "pid": pl.Int64, "tid": pl.Int64, "correlation_id": pl.Int64, "return_value": pl.Int64,
    "range_kind": pl.String, "category": pl.String,
}  # fmt: skip


@cache
def list_callbacks() -> dict[tuple[str, int], str]:
    """The functions that CUPTI has numbers for, by 'runtime' or 'driver' and number."""
    rows = read_rows(__package__ or "", "callbacks.tsv")[1:]
    return {(domain, int(number)): name for domain, number, name in rows}


def list_host_ops(db: SqliteFile, texts: dict[int, str]) -> pl.DataFrame:
    """Rows of `host_ops`, nested thread by thread."""
    parts = [_calls(db, "runtime"), _calls(db, "driver"), _ranges(db, texts), _overhead(db)]
    frame = pl.concat([p for p in parts if p.height] or parts[:1], how="diagonal_relaxed")
    frame = frame.select(
        *(c if c in frame.columns else pl.lit(None, t).alias(c) for c, t in _SHAPE.items())
    )
    return nest_ranges(
        frame.filter(pl.col("end_ns") >= pl.col("start_ns")),
        order=pl.col("layer").replace_strict(_ORDER, default=9, return_dtype=pl.Int8),
        apart=pl.col("range_kind") == "startend",
    )


def _calls(db: SqliteFile, domain: str) -> pl.DataFrame:
    table = f"CUPTI_ACTIVITY_KIND_{domain.upper()}"
    wanted = ("start", "end", "cbid", "processId", "threadId", "correlationId", "returnValue")
    frame = db.ints(table, wanted)
    used = frame.get_column("cbid").unique().drop_nulls()
    names = {n: list_callbacks()[domain, n] for n in used if (domain, n) in list_callbacks()}
    unnamed = pl.format("unknown call {}", "cbid")
    return frame.select(
        start_ns="start",
        end_ns="end",
        layer=pl.lit(domain),
        name=pl.col("cbid")
        .replace_strict(names, default=None, return_dtype=pl.String)
        .fill_null(unnamed),
        pid="processId",
        tid=_unsigned("threadId"),
        correlation_id="correlationId",
        return_value="returnValue",
    )


def _ranges(db: SqliteFile, texts: dict[int, str]) -> pl.DataFrame:
    """NVTX ranges: a row where one starts, one with the same number where it ends."""
    wanted = ("timestamp", "flags", "id", "objectKind", "name")
    rows = db.ints("CUPTI_ACTIVITY_KIND_MARKER", wanted)
    if rows.is_empty():
        return pl.DataFrame()
    owners = _read_owners(db, "CUPTI_ACTIVITY_KIND_MARKER")
    rows = rows.hstack(db.rowids("CUPTI_ACTIVITY_KIND_MARKER").alias("rowid").to_frame())
    rows = rows.join(owners, on="rowid", how="left", maintain_order="left")
    flag = pl.col("flags")
    ends = rows.filter(flag & _ENDS != 0).select("id", end_ns="timestamp")
    starts = rows.filter(flag & (_STARTS | _INSTANT) != 0)
    placed = starts.join(ends.unique("id", keep="first"), on="id", how="left")
    used = placed.get_column("name").unique().drop_nulls()
    names = {n: texts[n] for n in used if n in texts}
    is_mark = pl.col("flags") & _INSTANT != 0
    last = pl.lit(rows.get_column("timestamp").max(), pl.Int64)
    return placed.select(
        start_ns="timestamp",
        end_ns=pl.when(is_mark).then("timestamp").otherwise(pl.col("end_ns").fill_null(last)),
        layer=pl.lit("annotation"),
        name=pl.col("name")
        .replace_strict(names, default=None, return_dtype=pl.String)
        .fill_null("range without a name"),
        pid="pid",
        tid="tid",
        # A range of the process, and not of a thread, may end on another thread.
        range_kind=pl.when(is_mark)
        .then(pl.lit("mark"))
        .when(pl.col("objectKind") == _THREAD)
        .then(pl.lit("pushpop"))
        .otherwise(pl.lit("startend")),
    )


def _overhead(db: SqliteFile) -> pl.DataFrame:
    table = "CUPTI_ACTIVITY_KIND_OVERHEAD"
    rows = db.ints(table, ("start", "end", "overheadKind"))
    if rows.is_empty():
        return pl.DataFrame()
    rows = rows.hstack(db.rowids(table).alias("rowid").to_frame())
    rows = rows.join(_read_owners(db, table), on="rowid", how="left", maintain_order="left")
    kind = pl.col("overheadKind").replace_strict(_OVERHEAD, default=None, return_dtype=pl.String)
    return rows.select(
        start_ns="start",
        end_ns="end",
        layer=pl.lit("overhead"),
        name=kind.fill_null("overhead"),
        category=kind,
        pid="pid",
        tid="tid",
    )


def _read_owners(db: SqliteFile, table: str) -> pl.DataFrame:
    """The process and thread of each row: CUpti_ActivityObjectKindId, as bytes."""
    found = [
        (row, int.from_bytes(raw[:4], "little"), int.from_bytes(raw[4:8], "little"))
        for row, raw in db.blobs(table, "objectId")
        if len(raw) >= 8
    ]
    schema = {"rowid": pl.Int64, "pid": pl.Int64, "tid": pl.Int64}
    return pl.DataFrame(found, schema=schema, orient="row")


def _unsigned(column: str) -> pl.Expr:
    """A number of 32 bits as it is meant: half of the threads' are negative as they are stored."""
    return (pl.col(column) % (1 << 32)).alias(column)
