"""The declared tables of rows: pairs closed, ranges nested, threads found."""

from __future__ import annotations

import polars as pl

from sightline.algebra.nesting import nest_ranges
from sightline.errors import InputError
from sightline.importers._pairs import close_pairs
from sightline.importers.ctf.mpi import close_calls, describe_calls
from sightline.importers.ctf.rows import ROW, Rows
from sightline.model.declare import Quality
from sightline.model.tables import load_table

# A pair's two events are on one thread, on one core or of one device.
_LANES = {
    "host_ops": ("pid", "tid", "key"),
    "device_ops": ("device_id", "stream_id", "key"),
    "interrupts": ("cpu", "kind", "key"),
    "disk_requests": ("device", "key"),
}
_FROM_END = {"host_ops": ("return_value",)}
# What a table's moment is called, where it is no range.
_MOMENTS = ("sched_events", "wakeups", "counters", "page_faults")
_RANGES = tuple(_LANES)


def build_tables(rows: Rows, notes: list[Quality]) -> dict[str, pl.DataFrame]:
    """The tables of all rows. What was lost on the way is noted."""
    threads = _list_threads(rows)
    switches = rows.take("sched_events", "mark")
    running = switches.filter("switched_in").select("time", "cpu", running="tid").sort("time")
    tables: dict[str, pl.DataFrame] = {}
    for table in _MOMENTS:
        marks = switches if table == "sched_events" else rows.take(table, "mark")
        if not marks.is_empty():
            tables[table] = _name_time(_find_running(marks, running))
    tables["sched_events"] = tables.get("sched_events", _name_time(switches)).filter(
        pl.col("tid") > 0
    )
    for table in _RANGES:
        ranges = _close_ranges(rows, table, running, notes)
        if not ranges.is_empty():
            tables[table] = ranges
    if not (sums := rows.take("call_sums", "mark")).is_empty():
        tables["call_sums"] = sums
    if (marks := rows.take("mpi_events", "mark")).height:
        raise InputError(
            "cannot use the mapping sightline-ctf.yaml",
            why=f"it makes {marks.height} rows of mpi_events that belong to no call",
            hint="Give them the side and key of a row of host_ops, of the same event.",
        )
    calls = close_calls(rows.take("mpi_events", "pair"))
    owners = threads.select("tid", owner="pid").drop_nulls().unique("tid", keep="last")
    for name, frame in tables.items():
        if "pid" in frame.columns and "tid" in frame.columns:
            found = frame.join(owners, on="tid", how="left", maintain_order="left")
            # A kernel's recording that never says whose thread it is: a process of its own.
            tables[name] = found.with_columns(pid=pl.coalesce("pid", "owner")).drop("owner")
    if "host_ops" in tables:
        is_mark = pl.col("range_kind") == "mark"
        nested = nest_ranges(tables["host_ops"], apart=is_mark.fill_null(value=False))
        if calls.height:
            tables["mpi_events"] = describe_calls(calls, nested)
        tables["host_ops"] = nested.drop("event")
    if "device_ops" in tables:
        tables["device_ops"] = _number_ops(tables["device_ops"], tables.get("host_ops"))
        tables["devices"] = tables["device_ops"].select("device_id").unique().sort("device_id")
    tables["threads"] = threads.with_columns(pid=pl.coalesce("pid", "tid"))
    return {name: _select_declared(name, frame) for name, frame in tables.items()}


def _select_declared(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    names = {column.name for column in load_table(table).stored}
    return frame.select(name for name in frame.columns if name in names)


def _list_threads(rows: Rows) -> pl.DataFrame:
    seen = rows.take("threads", "mark").select("pid", "tid", "thread_name", "time")
    return (
        seen.drop_nulls("tid")
        .filter(pl.col("tid") > 0)
        .sort("time", maintain_order=True)
        .group_by("tid", maintain_order=True)
        .agg(pl.col("pid").drop_nulls().last(), pl.col("thread_name").drop_nulls().last())
        .sort("tid")
    )


def _find_running(frame: pl.DataFrame, running: pl.DataFrame) -> pl.DataFrame:
    """Rows without a thread get the one that ran on their CPU then, if switches tell."""
    if running.is_empty() or "tid" not in frame.columns or not frame.get_column("tid").null_count():
        return frame
    found = frame.sort("time", maintain_order=True).join_asof(
        running, on="time", by="cpu", strategy="backward", check_sortedness=False
    )
    return found.with_columns(tid=pl.coalesce("tid", "running")).drop("running")


def _name_time(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(time_ns="time").drop(*ROW, strict=False)


def _close_ranges(
    rows: Rows, table: str, running: pl.DataFrame, notes: list[Quality]
) -> pl.DataFrame:
    ranges = rows.take(table, "range")
    marks = rows.take(table, "mark")
    pairs = _find_running(rows.take(table, "pair"), running)
    begins, lost = close_pairs(pairs, _LANES[table], table, _FROM_END.get(table, ()))
    notes += lost
    length = pl.col("duration").fill_null(0).clip(0, 2**62)
    others = pl.concat([ranges, marks, pairs.filter(pl.col("side") == "mark")], how="diagonal")
    others = others.with_columns(end_ns=pl.col("time") + length)
    joined = pl.concat([begins, others], how="diagonal").sort("time", "event")
    joined = _find_running(joined, running).with_columns(start_ns="time")
    if table in ("host_ops", "device_ops"):
        joined = joined.with_columns(pl.col("name").fill_null("unnamed"))
    kept = ("event",) if table == "host_ops" else ()
    return joined.drop(
        *(name for name in ROW if name not in kept), "lane", "is_begin", strict=False
    )


def _number_ops(ops: pl.DataFrame, calls: pl.DataFrame | None) -> pl.DataFrame:
    """Device work with its id, and the call that launched it where there is one.

    It has the call's correlation id, or, with THAPI, the name and the start of the call, and its
    thread.
    """
    numbered = ops.with_columns(
        pl.col("device_id").fill_null(0), device_op_id=pl.int_range(pl.len(), dtype=pl.Int64)
    )
    if calls is None:
        return numbered
    keys = ["pid", "tid", "name", "start_ns"]
    known = calls.select(*keys, launch="host_op_id").unique(keys, keep="first")
    found = numbered.join(known, on=keys, how="left", maintain_order="left")
    found = found.with_columns(launch_id=pl.coalesce("launch_id", "launch")).drop("launch", "tid")
    if not {"correlation_id"} <= set(ops.columns) & set(calls.columns):
        return found
    is_known = ops.get_column("pid").null_count() < ops.height
    keys = ["pid", "correlation_id"] if is_known else ["correlation_id"]
    known = calls.select(*keys, launch="host_op_id").drop_nulls("correlation_id")
    known = known.unique(keys, keep="first", maintain_order=True)
    found = found.join(known, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return found.with_columns(launch_id=pl.coalesce("launch_id", "launch")).drop("launch")
