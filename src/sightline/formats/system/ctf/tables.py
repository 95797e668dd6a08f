"""The declared tables of rows: pairs closed, ranges nested, threads found. Slice by slice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.model.parts import make_of_frames
from sightline.core.model.tables import load_table
from sightline.core.units import format_several
from sightline.errors import InputError
from sightline.formats._pairs import pair_ends
from sightline.formats.system.ctf.mpi import GIVEN_BACK, LANE, complete_calls, describe_calls
from sightline.formats.system.ctf.nesting import Nested, nest_pieces
from sightline.formats.system.ctf.pieces import Pieces, copy_rows
from sightline.formats.system.ctf.rows import ROW, Rows

# A pair's two events are on one thread, on one core or of one device.
_LANES = {
    "host_ops": ("pid", "tid", "key"),
    "device_ops": ("device_id", "stream_id", "key"),
    "interrupts": ("cpu", "kind", "key"),
    "disk_requests": ("device", "key"),
    "mpi_events": LANE,
}
_FROM_END = {"host_ops": ("return_value",), "mpi_events": GIVEN_BACK}
# What a table's moment is called, where it is no range.
_MOMENTS = ("sched_events", "wakeups", "counters", "page_faults", "packets")
_RANGES = ("host_ops", "device_ops", "interrupts", "disk_requests")
_RUNNING = {"time": pl.Int64, "cpu": pl.Int64, "running": pl.Int64}
_THREADS = {"pid": pl.Int64, "tid": pl.Int64, "thread_name": pl.String, "time": pl.Int64}


@dataclass
class Built:
    """Tables in memory, and those that are made while they are written; see `Imported`."""

    tables: dict[str, pl.DataFrame]
    large: dict[str, pl.LazyFrame] = field(default_factory=dict)
    layers: tuple[str, ...] = ()  # of host_ops

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing but threads."""
        small = (frame for name, frame in self.tables.items() if name != "threads")
        return not self.large and all(frame.is_empty() for frame in small)


class TableBuilder:
    """Makes tables of slices of rows: `add` each, then `finish`.

    From slice to slice it knows what is still open, and which thread each CPU runs.
    """

    def __init__(self) -> None:
        moments = {name: Pieces("time_ns") for name in _MOMENTS}
        ranges = {name: Pieces("start_ns") for name in _RANGES}
        self._pieces = moments | ranges
        self._open: dict[str, pl.DataFrame] = {}
        self._last: dict[str, int] = {}  # time of any side of a table's pairs
        self._unmatched = dict.fromkeys(_LANES, 0)
        self._running = pl.DataFrame(schema=_RUNNING)
        self._threads = pl.DataFrame(schema=_THREADS)
        self._calls: list[pl.DataFrame] = []
        self._sums: list[pl.DataFrame] = []

    def add(self, since: int, rows: Rows) -> None:
        """The rows of a slice, which begins at a time. Raises InputError, OSError."""
        self._threads = _join_threads(self._threads, rows.take("threads", "mark"))
        switches = rows.take("sched_events", "mark")
        came = switches.filter("switched_in").select("time", "cpu", running="tid")
        running = pl.concat([self._running, came]).sort("time", maintain_order=True)
        for table in filter(rows.has, _MOMENTS[1:]):
            moments = _find_running(rows.take(table, "mark"), running)
            self._add_moments(table, moments, since)
        self._add_moments("sched_events", switches.filter(pl.col("tid") > 0), since)
        for table in _RANGES:
            if rows.has(table):
                self._pieces[table].add(self._take_ranges(table, rows, running), since)
        self._take_calls(rows)
        if not (sums := rows.take("call_sums", "mark")).is_empty():
            self._sums.append(sums)
        self._running = running.group_by("cpu", maintain_order=True).last().select(list(_RUNNING))

    def _add_moments(self, table: str, rows: pl.DataFrame, since: int) -> None:
        moments = rows.with_columns(time_ns="time").drop(_without("event"))
        self._pieces[table].add(moments, since)

    def finish(self, notes: list[Quality]) -> Built:
        """The tables of all slices. What was lost on the way is noted. Raises OSError."""
        for table in _LANES:
            self._close(table, notes)
        threads = self._threads
        owners = threads.select("tid", owner="pid").drop_nulls().unique("tid", keep="last")
        built = Built({})
        for table in (*_MOMENTS, "interrupts", "disk_requests"):
            pieces = self._pieces[table]
            if pieces.rows or table == "sched_events":
                frames = partial(_read_declared, table, pieces, owners)
                self._keep(built, table, frames, pieces)
        host = self._nest_calls(owners, built)
        self._list_device_ops(owners, host, built)
        if self._calls:
            calls = pl.concat(self._calls, how="diagonal_relaxed")
            described = describe_calls(calls, host.find("event", calls.get_column("event")))
            built.tables["mpi_events"] = _select_declared("mpi_events", described)
        if self._sums:
            sums = pl.concat(self._sums, how="diagonal_relaxed")
            built.tables["call_sums"] = _select_declared("call_sums", sums)
        named = threads.with_columns(pid=pl.coalesce("pid", "tid")).sort("tid")
        built.tables["threads"] = _select_declared("threads", named)
        return built

    def _take_ranges(self, table: str, rows: Rows, running: pl.DataFrame) -> pl.DataFrame:
        """Ranges that are whole: those with a duration, marks, and pairs that ended by now."""
        ranges, marks = rows.take(table, "range"), rows.take(table, "mark")
        pairs = _find_running(rows.take(table, "pair"), running)
        closed = self._pair(table, pairs)
        length = pl.col("duration").fill_null(0).clip(0, 2**62)
        others = pl.concat([ranges, marks, pairs.filter(pl.col("side") == "mark")], how="diagonal")
        others = others.with_columns(end_ns=pl.col("time") + length)
        joined = pl.concat([closed, others], how="diagonal_relaxed").sort(
            "time", "event", maintain_order=True
        )
        return _name_ranges(table, _find_running(joined, running))

    def _take_calls(self, rows: Rows) -> None:
        """What MPI calls communicate: rows beside those of the calls themselves."""
        if (marks := rows.take("mpi_events", "mark")).height:
            raise InputError(
                "cannot use the mapping sightline-ctf.yaml",
                why=(
                    f"it makes {format_several(marks.height, 'row')} of mpi_events that belong to "
                    "no call"
                ),
                hint="Give them the side and key of a row of host_ops, of the same event.",
            )
        sides = rows.take("mpi_events", "pair")
        if sides.height or "mpi_events" in self._open:
            calls = self._pair("mpi_events", complete_calls(sides))
            if calls.height:
                self._calls.append(calls)

    def _pair(self, table: str, pairs: pl.DataFrame) -> pl.DataFrame:
        """The pairs that ended by now; what has not waits for the next slice."""
        last = pairs.get_column("time").max()
        if isinstance(last, int):
            self._last[table] = max(self._last.get(table, last), last)
        sides = pairs.filter(pl.col("side").is_in(["begin", "end"]))
        if table in self._open:
            sides = pl.concat([self._open.pop(table), sides], how="diagonal_relaxed")
        if sides.is_empty():
            return sides
        lane = pl.struct(pl.col(_LANES[table])).rank("dense")
        numbered = sides.with_columns(lane=lane, is_begin=pl.col("side") == "begin")
        begins, lost = pair_ends(numbered, _FROM_END.get(table, ()))
        self._unmatched[table] += lost
        is_open = pl.col("end_ns").is_null()
        waiting = begins.filter(is_open).select(sides.columns)
        if waiting.height:
            self._open[table] = copy_rows(waiting)
        return begins.filter(~is_open)

    def _close(self, table: str, notes: list[Quality]) -> None:
        """What is still open ends with the last event of its table."""
        waiting = self._open.pop(table, None)
        if waiting is not None:
            ended = waiting.with_columns(end_ns=pl.lit(self._last[table], pl.Int64))
            if table == "mpi_events":
                self._calls.append(ended)
                return  # noted with the calls themselves
            self._pieces[table].add(_name_ranges(table, ended), 2**63 - 1)
            text = f"rows of {table} were still open at the recording's end: they end with it"
            notes.append(Quality("unclosed_ranges", "info", text, waiting.height))
        if (lost := self._unmatched[table]) and table != "mpi_events":
            text = f"ends of rows of {table} whose start was not recorded were left out"
            notes.append(Quality("unmatched_ends", "info", text, lost))

    def _keep(self, built: Built, table: str, frames: Any, pieces: Pieces) -> None:
        """The table in memory where it is one piece, else made while it is written."""
        if pieces.count <= 1:
            found = list(frames())
            built.tables[table] = found[0] if found else _make_empty(table)
        else:
            built.large[table] = make_of_frames(frames)

    def _nest_calls(self, owners: pl.DataFrame, built: Built) -> Nested:
        pieces = self._pieces.pop("host_ops")
        frames = (_fill_owner(frame, owners) for frame in pieces.read())
        host = nest_pieces(frames)
        if host.rows:
            built.layers = host.layers
            if host.is_whole:
                built.tables["host_ops"] = _select_declared("host_ops", next(host.read()))
            else:
                built.large["host_ops"] = make_of_frames(
                    lambda: (_select_declared("host_ops", frame) for frame in host.read())
                )
        return host

    def _list_device_ops(self, owners: pl.DataFrame, host: Nested, built: Built) -> None:
        """Device work is in memory as a whole: its calls are looked up."""
        found = list(self._pieces["device_ops"].read())
        if not found:
            return
        ops = _fill_owner(pl.concat(found), owners)
        keys = "start_ns", ops.get_column("start_ns")
        calls = [host.find(*keys)] if host.rows else []
        if calls and {"correlation_id"} <= set(ops.columns) & set(calls[0].columns):
            calls.append(host.find("correlation_id", ops.get_column("correlation_id")))
        known = pl.concat(calls).unique("host_op_id", maintain_order=True) if calls else None
        if known is not None:
            known = known.sort("host_op_id")
        numbered = _number_ops(ops.drop("event"), known)
        built.tables["device_ops"] = _select_declared("device_ops", numbered)
        devices = numbered.select("device_id").unique().sort("device_id")
        built.tables["devices"] = _select_declared("devices", devices)


def _without(*kept: str) -> list[str]:
    """What rows carry beside columns of tables, but for these."""
    return [name for name in ROW if name not in kept]


def _name_ranges(table: str, ranges: pl.DataFrame) -> pl.DataFrame:
    ranges = ranges.with_columns(start_ns="time")
    if table in ("host_ops", "device_ops"):
        ranges = ranges.with_columns(pl.col("name").fill_null("unnamed"))
    return ranges.drop(*_without("event"), "lane", "is_begin", strict=False)


def _read_declared(table: str, pieces: Pieces, owners: pl.DataFrame) -> Iterator[pl.DataFrame]:
    for frame in pieces.read():
        yield _select_declared(table, _fill_owner(frame, owners))


def _select_declared(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    names = {column.name for column in load_table(table).stored}
    return frame.select(name for name in frame.columns if name in names)


def _make_empty(table: str) -> pl.DataFrame:
    return pl.DataFrame(schema={column.name: column.dtype for column in load_table(table).stored})


def _fill_owner(frame: pl.DataFrame, owners: pl.DataFrame) -> pl.DataFrame:
    """The process of each thread whose event does not say: a kernel's recording seldom does."""
    if not {"pid", "tid"} <= set(frame.columns):
        return frame
    found = frame.join(owners, on="tid", how="left", maintain_order="left")
    return found.with_columns(pid=pl.coalesce("pid", "owner")).drop("owner")


def _join_threads(known: pl.DataFrame, seen: pl.DataFrame) -> pl.DataFrame:
    """Each thread with the last process and the last name that it had, and when it had one."""
    rows = seen.select(list(_THREADS)).drop_nulls("tid").filter(pl.col("tid") > 0)
    if rows.is_empty():
        return known
    return (
        pl.concat([known, rows])
        .sort("time", maintain_order=True)
        .group_by("tid", maintain_order=True)
        .agg(pl.col("pid", "thread_name").drop_nulls().last(), pl.col("time").last())
        .select(list(_THREADS))
    )


def _find_running(frame: pl.DataFrame, running: pl.DataFrame) -> pl.DataFrame:
    """Rows without a thread get the one that ran on their CPU then, if switches tell."""
    if running.is_empty() or "tid" not in frame.columns or not frame.get_column("tid").null_count():
        return frame
    found = frame.sort("time", maintain_order=True).join_asof(
        running, on="time", by="cpu", strategy="backward", check_sortedness=False
    )
    return found.with_columns(tid=pl.coalesce("tid", "running")).drop("running")


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
    known = calls.select(*keys, launch="host_op_id").unique(keys, keep="first", maintain_order=True)
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
