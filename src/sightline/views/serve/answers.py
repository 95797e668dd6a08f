"""What the page asks about single events, names and ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from sightline.core.model.run import Run
from sightline.core.text import make_printable
from sightline.errors import RequestError
from sightline.views.html.timeline.details import (
    DEVICE_FIELDS,
    HOST_FIELDS,
    write_device_text,
    write_host_text,
)
from sightline.views.html.timeline.tracks import DEVICE_CLASS, DEVICE_KEY, HOST_CLASS, THREAD_KEY
from sightline.views.serve.index import Index
from sightline.views.serve.lengths import bin_count
from sightline.views.serve.names import add_up_names

SLICES = 600  # of the strip that shows the whole run
MOST_LAUNCHED = 200
MOST_NAMES = 6
# Events of a lane that are looked through at once for a name: few first, since most names are near.
_FIRST_BLOCK, _MOST_AT_ONCE = 1 << 10, 1 << 20


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


def find_following(
    index: Index,
    moment: int,
    place: int,
    codes: Sequence[int],
    direction: int,
    *,
    first_block: int = _FIRST_BLOCK,
    most_at_once: int = _MOST_AT_ONCE,
) -> int | None:
    """The next event in time after (moment, place), or before it, that has one of the names.

    Events that start at the same moment follow in order of their places. `codes` are the names'
    places in `index.names`.
    """
    wanted = np.zeros(len(index.names), bool)
    wanted[list(codes)] = True
    spans = [_cut(index, a, b, moment, place, direction) for e in index.lanes for a, b in e.extents]
    spans = [(a, b) for a, b in spans if a < b]
    start, best = index.columns["start"], None

    def distance(place: int) -> tuple[int, int]:
        return direction * start[place], direction * place

    names = np.asarray(index.columns["name"])
    at_once = first_block
    while spans:
        rest = []
        for a, b in spans:
            low, high = (a, min(b, a + at_once)) if direction > 0 else (max(a, b - at_once), b)
            nearest = low if direction > 0 else high - 1
            if best is not None and distance(nearest) > distance(best):
                continue  # all that is left of this lane is farther away
            hits = np.flatnonzero(wanted[names[low:high]])
            if hits.size:
                found = low + int(hits[0 if direction > 0 else -1])
                best = found if best is None else min(best, found, key=distance)
            elif high - low < b - a:
                rest.append((high, b) if direction > 0 else (a, low))
        spans, at_once = rest, min(4 * at_once, most_at_once)
    return best


def _cut(index: Index, a: int, b: int, moment: int, place: int, direction: int) -> tuple[int, int]:
    """What of an extent lies after (moment, place), or before it."""
    start = index.columns["start"]
    first, past = bisect_left(start, moment, a, b), bisect_right(start, moment, a, b)
    if direction > 0:
        return max(first, min(past, place + 1)), b
    return a, max(first, min(past, place))


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
