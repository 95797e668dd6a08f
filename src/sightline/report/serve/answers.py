"""What the page asks about single events, names and ranges."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import polars as pl

from sightline.errors import RequestError
from sightline.model.run import Run
from sightline.report.html.timeline.details import (
    DEVICE_FIELDS,
    HOST_FIELDS,
    write_device_text,
    write_host_text,
)
from sightline.report.html.timeline.tracks import (
    DEVICE_CLASS,
    DEVICE_KEY,
    HOST_CLASS,
    RANGE_KEY,
    THREAD_KEY,
)
from sightline.report.serve.index import Index
from sightline.report.serve.lengths import bin_count
from sightline.report.serve.names import add_up_names
from sightline.text import make_printable

SLICES = 600  # of the strip that shows the whole run
MOST_LAUNCHED = 200
MOST_NAMES = 6
_TABLES = {
    "device_ops": (DEVICE_KEY, "device_op_id"),
    "device_ranges": (RANGE_KEY, None),
    "host_ops": (THREAD_KEY, "host_op_id"),
}
# Parts of the run, from a moment on, that are searched one after another for the next event.
_REACH = (0.001, 0.02, 0.2, 1.0)


def event(index: Index, place: int) -> dict[str, Any]:
    """One event as the page knows it. Raises RequestError for a place that there is not."""
    if not 0 <= place < index.events:
        raise RequestError(f"there is no event {place}")
    c = index.columns
    return {
        "id": place,
        "lane": index.lane_of(place),
        "start": c["start"][place],
        "end": c["end"][place],
        "name": c["name"][place],
        "cls": c["class"][place],
        "count": 1,
        "busy": c["end"][place] - c["start"][place],
    }


def facts(run: Run, index: Index, place: int) -> dict[str, Any]:
    """Details of an event: its texts, its launch or what it launched, and what is around it.

    What is around it on its thread comes innermost first.
    """
    here = event(index, place)
    table, _ = index.keys[index.lanes[here["lane"]].track]
    row_id = index.columns["id"][place]
    call: int | None = None
    launched: list[int] = []
    text = ""
    if table == "device_ops":
        row = _row(run, table, "device_op_id", row_id)
        text = write_device_text(row)
        if row["launch_id"] is not None:
            call = _host_place(run, index, row["launch_id"])
    elif table == "host_ops":
        text = write_host_text(_row(run, table, "host_op_id", row_id))
        launched = _launched(run, index, row_id)
    inner = place if call is None else call
    return {
        "details": text,
        "call": None if call is None else event(index, call),
        "launched": [event(index, p) for p in launched],
        "around": [event(index, p) for p in _around(index, inner)],
    }


def _row(run: Run, table: str, column: str, row_id: int) -> dict[str, Any]:
    wanted = (*DEVICE_FIELDS, "launch_id") if table == "device_ops" else HOST_FIELDS
    found = run.scan(table).filter(pl.col(column) == row_id).select(wanted)
    return found.collect(engine="streaming").row(0, named=True)


def _host_place(run: Run, index: Index, host_op_id: int) -> int | None:
    rows = run.scan("host_ops").filter(pl.col("host_op_id") == host_op_id)
    found = rows.select(*THREAD_KEY, pl.col("depth").fill_null(0), "start_ns").collect(
        engine="streaming"
    )
    if found.is_empty():
        return None
    *key, depth, start = found.row(0)
    return index.find(
        _track(index, "host_ops", tuple(key)), depth, start - index.origin_ns, host_op_id
    )


def _track(index: Index, table: str, key: tuple[Any, ...]) -> int:
    return index.keys.index((table, key))


def _launched(run: Run, index: Index, host_op_id: int) -> list[int]:
    if not run.rows("device_ops"):
        return []
    rows = run.scan("device_ops").filter(pl.col("launch_id") == host_op_id)
    found = rows.select(*DEVICE_KEY, "start_ns", "device_op_id").collect(engine="streaming")
    places = []
    for row in found.sort("start_ns").head(MOST_LAUNCHED).rows():
        *key, start, own = row
        place = index.find(_track(index, "device_ops", tuple(key)), 0, start - index.origin_ns, own)
        if place is not None:
            places.append(place)
    return places


def _around(index: Index, place: int) -> Iterable[int]:
    own = index.lane_of(place)
    start, end = index.columns["start"], index.columns["end"]
    for lane in range(own - 1, -1, -1):
        if index.lanes[lane].track != index.lanes[own].track:
            break
        i = index.at(lane, start[place])
        if i is not None and end[i] >= end[place]:
            yield i


def following(
    run: Run, index: Index, moment: int, place: int, names: list[str], direction: int
) -> int | None:
    """The next event in time after (moment, place), or before it, that has one of the names.

    Events that start at the same moment follow in order of their places.
    """
    for share in _REACH:
        reach = int(index.length_ns * share) + 1
        first, last = (moment, moment + reach) if direction > 0 else (moment - reach, moment)
        best: tuple[int, int] | None = None
        for table in _TABLES:
            for found in _starting(run, index, table, names, first, last, direction):
                after = (found > (moment, place)) if direction > 0 else (found < (moment, place))
                better = best is None or ((found < best) if direction > 0 else (found > best))
                if after and better:
                    best = found
        if best is not None:
            return best[1]
    return None


def _starting(
    run: Run, index: Index, table: str, names: list[str], first: int, last: int, direction: int
) -> Iterable[tuple[int, int]]:
    """(start, place) of the events of those names nearest to where the search began."""
    if not run.rows(table):
        return
    key, id_column = _TABLES[table]
    row_id = pl.col(id_column) if id_column else pl.lit(-1, pl.Int64)
    level = pl.col("depth").fill_null(0) if table == "host_ops" else pl.lit(0, pl.Int64)
    at = pl.col("start_ns") - index.origin_ns
    rows = (
        run.scan(table)
        .filter(pl.col("start_ns").is_between(first + index.origin_ns, last + index.origin_ns))
        .filter(pl.col("name").is_in(names))
        .select(*key, _level=level, _at=at, _id=row_id)
        .collect(engine="streaming")
    )
    rows = rows.sort("_at", descending=direction < 0)
    # Beyond those of the first two moments none can be the nearest.
    near = rows.get_column("_at").unique(maintain_order=True).head(2)
    for row in rows.filter(pl.col("_at").is_in(near.implode())).rows():
        *own, depth, start, number = row
        place = index.find(_track(index, table, tuple(own)), depth, start, number)
        if place is not None:
            yield start, place


def instances(index: Index, name: str) -> dict[str, Any]:
    """How long the device operations of a name took: a histogram on a logarithmic axis."""
    record = index.lengths_of(name)
    if record is None:
        return {"count": 0, "low": 1, "high": 2, "bins": [], "longest": None}
    count, least, most, longest, *bins = record
    low = max(least, 1)
    high = max(most, low + 1)
    return {
        "count": count,
        "low": low,
        "high": high,
        "bins": bins[: bin_count(low, high)],
        "longest": event(index, longest),
    }


def breakdown(index: Index, first: int, last: int) -> dict[str, Any]:
    """The partition of each device between two moments, and the names that took most there."""
    devices = []
    covers = index.covers
    for at in range(0, len(covers), len(DEVICE_CLASS)):
        of_device = covers[at : at + len(DEVICE_CLASS)]
        parts = [index.covered(c, last) - index.covered(c, first) for c in of_device]
        devices.append(
            {
                "rank": covers[at].rank,
                "device": covers[at].device,
                "compute": parts[0],
                "comm": parts[1] - parts[0],
                "copy": parts[2] - parts[1],
                "unknown": parts[3] - parts[2],
                "idle": last - first - parts[3],
            }
        )
    return {
        "devices": devices,
        "exact": True,
        "deviceNames": _names(index, "device_ops", first, last),
        "hostNames": _names(index, "host_ops", first, last),
    }


def _names(index: Index, table: str, first: int, last: int) -> list[dict[str, Any]]:
    found = add_up_names(index, table, first, last)
    most = sorted(found, key=lambda row: (-row[2], index.names[row[0]]))[:MOST_NAMES]
    return [{"name": name, "count": count, "time": time} for name, count, time in most]


def overview(index: Index) -> list[list[float]]:
    """How busy the devices are in each of SLICES equal parts of the run: a list for each class.

    Without devices, how much of it the threads' outermost ranges take, as that of operators.
    """
    edges = [index.length_ns * i // SLICES for i in range(SLICES + 1)]
    widths = [max(1, b - a) for a, b in pairwise(edges)]
    devices = len(index.covers) // len(DEVICE_CLASS)
    if devices:
        upto = [[0.0] * SLICES for _ in DEVICE_CLASS]
        for cover in index.covers:
            done = [index.covered(cover, t) for t in edges]
            for i, width in enumerate(widths):
                upto[cover.upto][i] += (done[i + 1] - done[i]) / width / devices
        pairs = zip(upto, [[0.0] * SLICES, *upto[:-1]], strict=True)
        return [[round(a - b, 4) for a, b in zip(*pair, strict=True)] for pair in pairs]
    outer = [i for i, lane in enumerate(index.lanes) if lane.level == 0]
    total = [0.0] * SLICES
    for lane in outer:
        done = [_lane_time(index, lane, t) for t in edges]
        for i, width in enumerate(widths):
            total[i] += (done[i + 1] - done[i]) / width / len(outer)
    nothing = [0.0] * SLICES
    return [*[nothing] * HOST_CLASS["op"], [round(v, 4) for v in total]]


def _lane_time(index: Index, lane: int, moment: int) -> int:
    """How long a lane's events took before a moment."""
    c = index.columns
    total = 0
    for a, b in index.lanes[lane].extents:
        i = bisect_left(c["start"], moment, a, b)
        total += c["before"][i] - c["before"][a]
        if i > a:
            total -= max(0, c["end"][i - 1] - moment)
    return total


def listed(index: Index) -> dict[str, Any]:
    """Names, labels and lanes, as the page's timeline has them."""
    return {
        "tracks": index.tracks,
        "lanes": {
            "track": [lane.track for lane in index.lanes],
            "lane": _within(index),
            "n": [lane.count for lane in index.lanes],
        },
        "names": [make_printable(name) for name in index.names],
        "labels": index.labels,
        "totals": {"n": [n for n, _ in index.totals], "ns": [ns for _, ns in index.totals]},
        "overview": overview(index),
    }


def _within(index: Index) -> list[int]:
    """Each lane's number within its track."""
    seen: dict[int, int] = {}
    numbers = []
    for lane in index.lanes:
        numbers.append(seen.get(lane.track, 0))
        seen[lane.track] = numbers[-1] + 1
    return numbers
