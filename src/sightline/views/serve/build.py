"""Makes the index of a run: a part of a table at a time, so that memory does not grow with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from sightline.core.algebra.intervals import merge_intervals
from sightline.core.algebra.lanes import assign_lanes
from sightline.core.model.run import Run
from sightline.core.text import make_printable
from sightline.timeline.classes import classify_ops
from sightline.views.html.timeline.tracks import (
    DEVICE_CLASS,
    DEVICE_KEY,
    HOST_CLASS,
    OTHER_CLASS,
    RANGE_CLASS,
    RANGE_KEY,
    THREAD_KEY,
    make_device_tracks,
    make_range_tracks,
    make_thread_tracks,
    shorten_labels,
)
from sightline.views.serve.columns import Writer, map_column
from sightline.views.serve.index import COLUMNS, COVER, LENGTHS, SUMS, Cover, Index, Lane
from sightline.views.serve.lengths import make_lengths
from sightline.views.serve.names import Adder

# Rows that are in memory at once: about 300 MB with the copies that sorting makes.
PART = 4_000_000

Say = Callable[[int], None]


@dataclass(frozen=True)
class _Kind:
    """A table whose rows are events."""

    table: str
    key: list[str]
    level: pl.Expr
    row_id: pl.Expr
    tracks: Callable[[Run, pl.DataFrame], list[dict[str, Any]]]
    columns: tuple[str, ...]
    classes: Callable[[Run, pl.DataFrame], pl.DataFrame]


def _device_class(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    classed = classify_ops(rows, run.table("collectives"))
    return classed.with_columns(
        pl.col("class_").replace_strict(DEVICE_CLASS, return_dtype=pl.UInt8).alias("class")
    )


def _host_class(_: Run, rows: pl.DataFrame) -> pl.DataFrame:
    of_layer = pl.col("layer").replace_strict(
        HOST_CLASS, default=OTHER_CLASS, return_dtype=pl.UInt8
    )
    return rows.with_columns(of_layer.alias("class"))


_ZERO = pl.lit(0, pl.Int64)
_KINDS = (
    _Kind("device_ops", DEVICE_KEY, _ZERO, pl.col("device_op_id"),
          lambda _, keys: make_device_tracks(keys), ("kind", "device_op_id"), _device_class),
    _Kind("device_ranges", RANGE_KEY, _ZERO, pl.lit(-1, pl.Int64),
          lambda _, keys: make_range_tracks(keys), (),
          lambda _, rows: rows.with_columns(pl.lit(RANGE_CLASS, pl.UInt8).alias("class"))),
    _Kind("host_ops", THREAD_KEY, pl.col("depth").fill_null(0), pl.col("host_op_id"),
          lambda run, keys: make_thread_tracks(keys, run.table("threads")),
          ("host_op_id", "layer", "depth"), _host_class),
)  # fmt: skip


def build_index(run: Run, folder: Path, say: Say = lambda _: None, part: int = PART) -> Index:
    """Write the columns of all events into `folder`; `say` hears how many are done.

    At most about `part` rows are held at once, more only where that many overlap without a pause.
    """
    origin, last = _span(run)
    # Rank by rank: no part of the work reads the files of others.
    numbers = sorted({p.rank for p in run.parts})
    ranks = [Run([p for p in run.parts if p.rank == n], run.window) for n in numbers]
    files = {**COLUMNS, **COVER, **SUMS}
    writers = {name: Writer(folder / name, code) for name, code in files.items()}
    adder = Adder(last - origin, sum(run.rows(kind.table) for kind in _KINDS))
    tracks: list[dict[str, Any]] = []
    keys: list[tuple[str, tuple[Any, ...]]] = []
    lanes: dict[tuple[int, int, int], Lane] = {}
    names = _Names()
    for kind in _KINDS:
        if not run.rows(kind.table):
            continue
        counts = pl.concat([_counts(one, kind) for one in ranks])
        own = counts.group_by(kind.key, maintain_order=True).agg(pl.col("n").sum())
        at = len(tracks)
        tracks += kind.tracks(run, own)
        keys += [(kind.table, row) for row in own.select(kind.key).rows()]
        own = own.drop("n").with_columns(track=pl.int_range(at, at + pl.len(), dtype=pl.Int64))
        counts = counts.join(own, on=kind.key, nulls_equal=True, maintain_order="left")
        for one in ranks:
            mine = counts.filter(pl.col("rank") == one.parts[0].rank)
            for rows in _parts(one, kind, mine, part):
                adder.add(kind.table, _put(rows, origin, writers, names, lanes))
                say(writers["start"].length)
    covers = [cover for one in ranks for cover in _covers(one, origin, writers, part)]
    writers["before"].add([names.time])
    sums = adder.write(writers["name_sums"])
    for writer in writers.values():
        writer.close()
    timed = _write_lengths(folder, [lanes[key] for key in lanes if keys[key[0]][0] == "device_ops"])
    order = sorted(range(len(tracks)), key=lambda i: tracks[i]["order"])
    place = {old: new for new, old in enumerate(order)}
    rows_of = sorted(lanes.items(), key=lambda item: (place[item[0][0]], item[0][1:]))
    return Index(
        folder,
        origin,
        last - origin,
        [{k: v for k, v in tracks[i].items() if k != "order"} for i in order],
        [keys[i] for i in order],
        [Lane(place[lane.track], lane.level, lane.extents) for _, lane in rows_of],
        names.names,
        names.labels(),
        names.totals,
        covers,
        sums,
        timed,
    )


class _Names:
    """Numbers of names, in order of first appearance, and what each is added up to."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.names: list[str] = []
        self.kinds: list[int] = []
        self.totals: list[tuple[int, int]] = []
        self.time = 0  # of all events so far

    def labels(self) -> list[str]:
        """A label for each name; what they must tell apart is known at the end."""
        return shorten_labels(zip(map(make_printable, self.names), self.kinds, strict=True))

    def coded(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with `code` for `name`, which are counted."""
        length = pl.col("end_ns") - pl.col("start_ns")
        known = (
            rows.group_by("name")
            .agg(n=pl.len(), ns=length.sum(), kind=pl.col("class").min())
            .sort("n", "name", descending=[True, False])
        )
        codes = []
        for name, n, ns, kind in known.rows():
            code = self.number.setdefault(name, len(self.names))
            if code == len(self.names):
                self.names.append(name)
                self.kinds.append(kind)
                self.totals.append((0, 0))
            had = self.totals[code]
            self.totals[code] = (had[0] + n, had[1] + ns)
            codes.append(code)
        of = known.select("name", code=pl.Series(codes, dtype=pl.UInt32))
        return rows.join(of, on="name", how="left", maintain_order="left").drop("name")


def _span(run: Run) -> tuple[int, int]:
    edges = []
    for table in ("device_ops", "host_ops", "device_ranges"):
        if run.rows(table):
            ends = run.scan(table).select(pl.col("start_ns").min(), pl.col("end_ns").max())
            edges.append(ends.collect(engine="streaming").row(0))
    for table in ("counters", "memory_events"):
        if run.rows(table):
            ends = run.scan(table).select(a=pl.col("time_ns").min(), b=pl.col("time_ns").max())
            edges.append(ends.collect(engine="streaming").row(0))
    known = [(a, b) for a, b in edges if a is not None and b is not None]
    return (min(a for a, _ in known), max(b for _, b in known)) if known else (0, 0)


def _rows(run: Run, kind: _Kind) -> pl.LazyFrame:
    """A kind's rows, with `level`."""
    return run.scan(kind.table).drop_nulls(["start_ns", "end_ns"]).with_columns(level=kind.level)


def _counts(run: Run, kind: _Kind) -> pl.DataFrame:
    by = [*kind.key, "level"]
    return (
        _rows(run, kind)
        .group_by(by)
        .agg(n=pl.len())
        .collect(engine="streaming")
        .sort(*by, nulls_last=True)
    )


def _parts(run: Run, kind: _Kind, counts: pl.DataFrame, part: int) -> Iterator[pl.DataFrame]:
    """Rows of whole levels of tracks, or, where one is larger than a part, slices of its time.

    `counts` has kind.key, level, track and n, the number of rows.
    """
    by = [*kind.key, "level"]
    wanted = [*by, "name", "start_ns", "end_ns", *kind.columns]
    rows = _rows(run, kind).select(list(dict.fromkeys(wanted)))
    group: list[dict[str, Any]] = []
    size = 0
    for key in [*counts.iter_rows(named=True), None]:
        if group and (key is None or size + key["n"] > part):
            chosen = pl.DataFrame(group, schema=counts.schema).drop("n")
            yield _ready(
                run,
                kind,
                rows.join(chosen.lazy(), on=by, nulls_equal=True).collect(engine="streaming"),
            )
            group, size = [], 0
        if key is None:
            break
        if key["n"] <= part:
            group.append(key)
            size += key["n"]
            continue
        own = rows.filter(*[pl.col(c).eq_missing(pl.lit(key[c])) for c in by])
        for first, last in _slices(own, key["n"], part):
            inside = pl.col("start_ns").is_between(first, last, closed="left")
            found = own.filter(inside).collect(engine="streaming")
            yield _ready(run, kind, found.with_columns(track=pl.lit(key["track"], pl.Int64)))


def _ready(run: Run, kind: _Kind, rows: pl.DataFrame) -> pl.DataFrame:
    return kind.classes(run, rows).select(
        "track", "level", "start_ns", "end_ns", "name", "class", id=kind.row_id
    )


def _slices(rows: pl.LazyFrame, n: int, part: int) -> list[tuple[int, int]]:
    """Times at which nothing of these rows is open, about `part` rows apart."""
    times = rows.select("start_ns", "end_ns").collect(engine="streaming").sort("start_ns")
    reach = pl.max_horizontal("end_ns", pl.col("start_ns") + 1).cum_max().shift(1)
    free = times.select((pl.col("start_ns") >= reach).fill_null(value=True)).to_series().arg_true()
    starts = times.get_column("start_ns")
    wanted = pl.int_range(part, n, part, eager=True, dtype=pl.Int64)
    places = free.cast(pl.Int64).search_sorted(wanted)
    chosen = [int(free[int(p)]) for p in places if int(p) < free.len()]
    cuts = sorted({int(starts[place]) for place in chosen})
    edges = [int(starts[0]), *cuts, int(starts[-1]) + 1]
    return [(a, b) for a, b in pairwise(edges) if a < b]


def _put(
    rows: pl.DataFrame,
    origin: int,
    writers: dict[str, Writer],
    names: _Names,
    lanes: dict[tuple[int, int, int], Lane],
) -> pl.DataFrame:
    """Append rows to the columns; gives the same with their names' numbers as `code`."""
    rows = assign_lanes(
        names.coded(rows).with_columns(pl.col("start_ns", "end_ns") - origin)
    ).with_columns(sub=pl.col("lane") - pl.col("lane").min().over("track", "level"))
    at = writers["start"].length
    length = rows.get_column("end_ns") - rows.get_column("start_ns")
    done = length.cum_sum()
    writers["start"].add(rows.get_column("start_ns"))
    writers["end"].add(rows.get_column("end_ns"))
    writers["before"].add(done - length + names.time)
    writers["name"].add(rows.get_column("code"))
    writers["class"].add(rows.get_column("class"))
    writers["id"].add(rows.get_column("id"))
    names.time += int(length.sum())
    sizes = rows.group_by("track", "level", "sub", maintain_order=True).agg(n=pl.len())
    for track, level, sub, n in sizes.rows():
        lane = lanes.setdefault((track, level, sub), Lane(track, level))
        lane.extents.append((at, at + n))
        at += n
    return rows


def _write_lengths(folder: Path, lanes: list[Lane]) -> list[int]:
    """Write how long the events of some lanes took, by name; the names, in the file's order."""
    extents = [extent for lane in lanes for extent in lane.extents]
    columns = {name: map_column(folder / name, COLUMNS[name]) for name in ("start", "end", "name")}
    found = make_lengths(columns, extents)
    ((file, code),) = LENGTHS.items()
    writer = Writer(folder / file, code)
    writer.add(pl.Series(found.drop("code").to_numpy().ravel()) if found.height else [])
    writer.close()
    codes: list[int] = found.get_column("code").to_list()
    return codes


def _covers(run: Run, origin: int, writers: dict[str, Writer], part: int) -> Iterator[Cover]:
    """The union of each device's operations, by class and those before it in the partition."""
    if not run.rows("device_ops"):
        return
    rows = run.scan("device_ops").drop_nulls(["start_ns", "end_ns"])
    devices = (
        rows.group_by("rank", "device_id")
        .agg(n=pl.len(), first=pl.col("start_ns").min(), last=pl.col("start_ns").max())
        .collect(engine="streaming")
        .sort("rank", "device_id")
    )
    for rank, device, n, first, last in devices.rows():
        own = rows.filter(pl.col("rank") == rank, pl.col("device_id") == device)
        slices = -(-n // part)
        width = (last - first) // slices + 1
        found: list[list[pl.DataFrame]] = [[] for _ in DEVICE_CLASS]
        for at in range(first, last + 1, width):
            inside = pl.col("start_ns").is_between(at, at + width, closed="left")
            some = own.filter(inside).select("device_op_id", "kind", "name", "start_ns", "end_ns")
            classed = _device_class(run, some.collect(engine="streaming"))
            classed = classed.filter(pl.col("end_ns") > pl.col("start_ns"))
            for upto in range(len(DEVICE_CLASS)):
                busy = classed.filter(pl.col("class") <= upto).select("start_ns", "end_ns")
                found[upto].append(merge_intervals(busy.with_columns(all=pl.lit(0)), ["all"]))
        for upto in range(len(DEVICE_CLASS)):
            busy = merge_intervals(pl.concat(found[upto]), ["all"])
            length = busy.get_column("end_ns") - busy.get_column("start_ns")
            begin = writers["cover_start"].length
            writers["cover_start"].add(busy.get_column("start_ns") - origin)
            writers["cover_end"].add(busy.get_column("end_ns") - origin)
            writers["cover_before"].add(length.cum_sum() - length)
            yield Cover(rank, device, upto, begin, writers["cover_start"].length)
