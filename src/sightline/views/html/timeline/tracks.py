"""Which rows the timeline has, and every event of the run in one of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sightline.core.algebra.lanes import assign_lanes, thin_events
from sightline.core.algebra.lookup import find_rows, number_groups
from sightline.core.model.run import Run
from sightline.core.model.span import Span
from sightline.core.text import make_printable
from sightline.core.units import format_note, format_several
from sightline.flames.names import make_labels
from sightline.timeline.classes import classify_run
from sightline.timeline.mpi import list_messages
from sightline.views.html.timeline.details import (
    DEVICE_FIELDS,
    HOST_FIELDS,
    list_device_details,
    list_host_details,
)
from sightline.views.html.timeline.states import list_state_rows

# A page of so many events stays under 4 MB where they are like those of tests/web/million.py; of
# real recordings an event takes 1 to 5 bytes (benchmarks/README.md, "The page"). Beyond it short
# neighbors become marks that say how many they are.
MAX_EVENTS = 1_200_000

# Colours of the page, by number.
CLASSES = (
    "compute",
    "communication",
    "copy",
    "unknown operation",
    "operator",
    "annotation",
    "step",
    "API call",
    "Python",
    "device range",
    "other",
)
# Of threads, where the scheduler was traced: behind the others, since few recordings have them.
STATE_CLASSES = ("running", "waits for a CPU", "asleep")
DEVICE_CLASS = {"compute": 0, "exposed_comm": 1, "exposed_copy": 2, "unknown": 3}
MAX_DEVICE_CLASS = max(DEVICE_CLASS.values())
HOST_CLASS = {"op": 4, "annotation": 5, "step": 6, "runtime": 7, "driver": 7, "python": 8}
RANGE_CLASS, OTHER_CLASS = 9, 10
# What tells the rows of each kind apart.
DEVICE_KEY = ["rank", "device_id", "pid", "context_id", "stream_id"]
RANGE_KEY = ["rank", "device_id", "stream_id"]
THREAD_KEY = ["rank", "pid", "tid"]
# Texts repeat: numbers are moved and counted instead.
_NAME = pl.col("name").cast(pl.Categorical)
_RANGE = ("host_op_id", "depth", "layer", "name", "start_ns", "end_ns")
_COLUMNS = ("track", "level", "start_ns", "end_ns", "name", "class", "detail", "id", "link")


@dataclass
class Timeline:
    """Events sorted by track, lane and start; names and details as places in lists."""

    tracks: list[dict[str, Any]]
    events: pl.DataFrame
    names: list[str]
    labels: list[str]  # the names, short
    details: list[str]
    in_tables: int  # rows of the tables that were put in
    merged: int = 0  # events that stand in marks of several
    notes: list[str] = field(default_factory=list)


def make_timeline(run: Run, span: Span, limit: int = MAX_EVENTS) -> Timeline:
    """The run's device operations, host ranges and ranges on the device, on one clock's axis."""
    origin_ns, end_ns = span
    tracks: list[dict[str, Any]] = []
    parts: list[pl.DataFrame] = []
    texts: list[str] = [""]
    notes: list[str] = []
    made = [_device(run, texts), _ranges(run), _host(run, texts, notes)]
    made.append(list_state_rows(run, texts))
    for rank_part, rank_tracks in made:
        parts.append(rank_part.with_columns(track=pl.col("track") + len(tracks)))
        tracks += rank_tracks
    events = pl.concat(parts)
    order = sorted(range(len(tracks)), key=lambda i: tracks[i]["order"])
    place = pl.Series(order, dtype=pl.Int64).arg_sort().cast(pl.Int64)
    events = events.with_columns(track=place.gather(events.get_column("track")))
    tracks = [{k: v for k, v in tracks[i].items() if k != "order"} for i in order]
    total = events.height
    on_axis = (pl.col("end_ns") >= origin_ns) & (pl.col("start_ns") <= end_ns)
    events = events.filter(on_axis)
    if elsewhere := total - events.height:
        notes.append(
            format_note(
                elsewhere,
                f"of {format_several(total, 'event')} are of another clock, days from the others, "
                "and are not drawn: open their recording alone to see them.",
            )
        )
    events = assign_lanes(events).with_columns(pl.col("start_ns", "end_ns") - origin_ns)
    events, merged = thin_events(events, limit)
    if merged:
        notes.append(
            format_note(
                merged,
                f"of {format_several(total, 'event')} are too short to be drawn and are merged "
                "with their neighbors: `sightline serve` shows each of them.",
            )
        )
    events, names, labels = _named(events)
    events = _linked(events)
    return Timeline(tracks, events, names, labels, texts, total, merged, notes)


def _empty() -> pl.DataFrame:
    types = dict.fromkeys(_COLUMNS, pl.Int64) | {"name": pl.Categorical}
    return pl.DataFrame(schema=types)


def _numbered(frame: pl.DataFrame, by: list[str]) -> tuple[pl.Series, pl.DataFrame]:
    """The track of each row, and one row a track with how many events it has."""
    number, keys = number_groups(frame, by)
    counts = number.value_counts().sort(number.name).get_column("count")
    order = keys.with_columns(n=counts, _place=pl.int_range(pl.len())).sort(*by, nulls_last=True)
    track = order.get_column("_place").arg_sort()  # undoes the sort
    return track.gather(number).cast(pl.Int64).alias("track"), order.drop("_place")


def _device(run: Run, texts: list[str]) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    ops = run.table("device_ops", [*DEVICE_KEY, *DEVICE_FIELDS])
    if ops.is_empty():
        return _empty(), []
    classed = classify_run(run)
    detail, known = list_device_details(ops)
    track, keys = _numbered(ops, DEVICE_KEY)
    texts[:] = known
    return (
        classed.select(
            track,
            pl.lit(0, pl.Int64).alias("level"),
            "start_ns",
            "end_ns",
            _NAME,
            pl.col("class_").replace_strict(DEVICE_CLASS, return_dtype=pl.Int64).alias("class"),
            detail=detail.cast(pl.Int64),
            id="device_op_id",
            link="launch_id",
        ).select(_COLUMNS),
        make_device_tracks(keys),
    )


def make_device_tracks(keys: pl.DataFrame) -> list[dict[str, Any]]:
    """A row of the page for each of DEVICE_KEY."""
    several = keys.group_by("rank", "device_id", "stream_id").agg(pl.len()).get_column("len").max()
    tracks = []
    for key in keys.iter_rows(named=True):
        context = f" · context {key['context_id']}" if several != 1 and key["context_id"] else ""
        stream = "no stream" if key["stream_id"] is None else f"stream {key['stream_id']}"
        tracks.append(
            {
                "rank": key["rank"],
                "device": key["device_id"],
                "kind": "stream",
                "group": f"rank {key['rank']} · GPU {key['device_id']}",
                "label": stream + context,
                "order": (
                    key["rank"],
                    0,
                    key["device_id"],
                    1,
                    _n(key["stream_id"]),
                    _n(key["context_id"]),
                ),
            }
        )
    return tracks


def _n(value: int | None) -> int:
    return 2**62 if value is None else value


def _ranges(run: Run) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    ranges = run.table("device_ranges").drop_nulls(["start_ns", "end_ns"])
    if ranges.is_empty():
        return _empty(), []
    track, keys = _numbered(ranges, RANGE_KEY)
    zero = pl.lit(0, pl.Int64)
    none = pl.lit(None, pl.Int64)
    return (
        ranges.select(
            track,
            _NAME,
            level=zero,
            start_ns="start_ns",
            end_ns="end_ns",
            detail=zero,
            id=none,
            link=none,
            **{"class": pl.lit(RANGE_CLASS, pl.Int64)},
        ).select(_COLUMNS),
        make_range_tracks(keys),
    )


def make_range_tracks(keys: pl.DataFrame) -> list[dict[str, Any]]:
    """A row of the page for each of RANGE_KEY."""
    return [
        {
            "rank": key["rank"],
            "device": key["device_id"],
            "kind": "ranges",
            "group": f"rank {key['rank']} · GPU {key['device_id']}",
            "label": f"annotations on stream {key['stream_id']}",
            "order": (key["rank"], 0, _n(key["device_id"]), 0, _n(key["stream_id"]), 0),
        }
        for key in keys.iter_rows(named=True)
    ]


def _host(
    run: Run, texts: list[str], notes: list[str]
) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    ops = run.table("host_ops", [*THREAD_KEY, *_RANGE, *HOST_FIELDS])
    if ops.is_empty():
        return _empty(), []
    detail, known, left_out = list_host_details(ops)
    if left_out:
        notes.append(f"Left out of the timeline's details for their size: {', '.join(left_out)}.")
    track, keys = _numbered(ops, THREAD_KEY)
    # Texts of the device stand first; place 0 of both is the empty text.
    at = len(texts) - 1
    texts += known[1:]
    return (
        ops.with_columns(sender=_find_senders(run, ops))
        .select(
            track,
            pl.col("depth").fill_null(0).alias("level"),
            "start_ns",
            "end_ns",
            _NAME,
            pl.col("layer")
            .cast(pl.Categorical)
            .replace_strict(HOST_CLASS, default=OTHER_CLASS, return_dtype=pl.Int64)
            .alias("class"),
            detail=pl.when(detail > 0).then(detail.cast(pl.Int64) + at).otherwise(0),
            id="host_op_id",
            link="sender",
        )
        .select(_COLUMNS),
        make_thread_tracks(keys, run.table("threads")),
    )


def _find_senders(run: Run, ops: pl.DataFrame) -> pl.Series:
    """For each call that received an MPI message the call that sent it: of several the last."""
    if not run.rows("mpi_events"):
        return pl.repeat(None, ops.height, dtype=pl.Int64, eager=True)
    received = (
        list_messages(run)
        .sort("send_start_ns")
        .select("receive_done_host_op_id", "send_host_op_id")
    )
    senders = received.drop_nulls().unique("receive_done_host_op_id", keep="last")
    rows = find_rows(senders.get_column("receive_done_host_op_id"), ops.get_column("host_op_id"))
    return senders.get_column("send_host_op_id").gather(rows)


def make_thread_tracks(keys: pl.DataFrame, threads: pl.DataFrame) -> list[dict[str, Any]]:
    """A row of the page for each of THREAD_KEY; of `threads` come the names."""
    named = {
        (t["rank"], t["pid"], t["tid"]): t["thread_name"] for t in threads.iter_rows(named=True)
    }
    tracks = []
    for key in keys.iter_rows(named=True):
        name = named.get((key["rank"], key["pid"], key["tid"])) or ""
        label = "thread" if key["tid"] is None else f"thread {key['tid']}"
        if name and not name.startswith("thread "):
            label = f"{name} {key['tid']}"
        tracks.append(
            {
                "rank": key["rank"],
                "device": None,
                "kind": "thread",
                "group": f"rank {key['rank']} · CPU",
                "label": make_printable(label),
                "order": (key["rank"], 1, -key["n"], _n(key["pid"]), _n(key["tid"]), 0),
            }
        )
    return tracks


def _named(events: pl.DataFrame) -> tuple[pl.DataFrame, list[str], list[str]]:
    """Names as places in a list, the most frequent first, so that most fit in a byte."""
    known = (
        events.group_by("name")
        .agg(n=pl.len(), first=pl.col("class").min())
        .sort("n", pl.col("name").cast(pl.String), descending=[True, False])
    )
    names = [make_printable(n) for n in known.get_column("name").to_list()]
    labels = shorten_labels(zip(names, known.get_column("first"), strict=True))
    # Categorical numbers are of all texts of the process; those of the page begin at 0.
    number, of_known = (f.get_column("name").to_physical() for f in (events, known))
    highest = number.max() if known.height else 0
    assert isinstance(highest, int)
    codes = pl.repeat(0, highest + 1, dtype=pl.UInt32, eager=True).scatter(
        of_known, pl.int_range(known.height, dtype=pl.UInt32, eager=True)
    )
    return events.with_columns(name=codes.gather(number)), names, labels


def shorten_labels(names: Iterable[tuple[str, int]]) -> list[str]:
    """Labels of (name, place in CLASSES), as short as they still tell the kernels apart."""
    kernels = DEVICE_CLASS["compute"], DEVICE_CLASS["exposed_comm"]
    layer = {**dict.fromkeys(kernels, "kernel"), HOST_CLASS["python"]: "python"}
    labels = make_labels((layer.get(kind, "op"), name) for name, kind in names)
    # It is the box that cuts a label; no box is wider than this.
    return [label[:160] for label in labels]


def _linked(events: pl.DataFrame) -> pl.DataFrame:
    """`link`: place of the launching or sending call among the events, plus 1; 0 is none."""
    ids = events.get_column("id")
    calls = ((events.get_column("class") > MAX_DEVICE_CLASS) & ids.is_not_null()).arg_true()
    found = find_rows(ids.gather(calls), events.get_column("link"))
    at = calls.cast(pl.Int64).gather(found) + 1
    return events.with_columns(link=at.fill_null(0)).drop("level")
