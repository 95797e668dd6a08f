"""Every event of the run on rows: streams, threads, annotations, counters."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel
from sightline.core.page.series import make_tracks
from sightline.core.text import make_printable
from sightline.errors import MissingDataError
from sightline.views.html.evidence import choose_places, has_ranks, pack_places
from sightline.views.html.timeline.tracks import CLASSES, MAX_DEVICE_CLASS, STATE_CLASSES
from sightline.views.html.view import PageView

# A piece takes 5 bytes of the page, packed: a longer path is for `sightline critical-path`.
MAX_PIECES = 200_000
# So many numbers take less room as text than what says where they stand in the binary part.
MOST_IN_TEXT = 256

PANEL = Panel("timeline", "Timeline", 10, needs_findings=True)


def data(view: PageView) -> list[Block]:
    """Tracks with lanes, the packed columns, names, details, marks of findings."""
    line = view.timeline
    if line.events.is_empty():
        raise MissingDataError("no timeline", why="no operation with a start and an end")
    events = line.events
    lanes = events.group_by("track", "lane", maintain_order=True).agg(n=pl.len())
    block: dict[str, Any] = {
        "kind": "timeline",
        "tracks": line.tracks,
        "lanes": {
            "track": lanes.get_column("track").to_list(),
            "lane": lanes.get_column("lane").to_list(),
            "n": lanes.get_column("n").to_list(),
        },
        "columns": view.columns,
        "bases": view.bases,
        "names": line.names,
        # Empty where it is the name, as of most annotations, each of which has a name of its own.
        "labels": ["" if a == b else a for a, b in zip(line.labels, line.names, strict=True)],
        "details": line.details,
        "details_of": view.details_of,
        "classes": [*CLASSES, *(STATE_CLASSES if view.run.rows("sched_events") else ())],
        "in_tables": line.in_tables,
        "merged": line.merged,
        "counters": make_tracks(view),
        "marks": [
            mark | _pack_places(view, view.places[mark["finding"]]) for mark in _list_marks(view)
        ],
        "path": _critical_path(view),
        "windows": _windows(view),
    }
    return [block, *(blocks.make_text(note) for note in line.notes)]


def make_marks(view: PageView) -> list[dict[str, Any]]:
    """Where each finding happens, with what is said of it there: all places, in order of time."""
    return [
        mark | pack_places(view.places[mark["finding"]], view.span) for mark in _list_marks(view)
    ]


def _list_marks(view: PageView) -> list[dict[str, Any]]:
    marks = []
    for number, (finding, places) in enumerate(zip(view.judged, view.places, strict=True)):
        if places.is_empty():
            continue
        mark = {"finding": number, "title": make_printable(finding["title"])}
        mark |= {name: make_printable(finding[name] or "") for name in ("summary", "fix")}
        marks.append(mark)
    return marks


def _pack_places(view: PageView, places: pl.DataFrame) -> dict[str, Any]:
    """The same places, as events where all of them are, and many numbers in the binary part."""
    chosen = choose_places(places)
    at = None if chosen.height <= MOST_IN_TEXT else _find_events(view, chosen)
    if at is not None:
        # In order of the events, which are in that of lanes: the page sorts them by time.
        packed = view.packed.add(at.sort(), delta=True)
        return {"count": places.height, "at": packed, "by_rank": has_ranks(chosen)}
    found = pack_places(places, view.span)
    return found | {k: pack_numbers(view, v) for k, v in found.items() if k != "count"}


def _find_events(view: PageView, places: pl.DataFrame) -> pl.Series | None:
    """The row of the device's operation that each place is; None if one of them is none."""
    tracks, events = view.timeline.tracks, view.timeline.events
    ranks = pl.Series([track["rank"] for track in tracks], dtype=pl.Int64)
    asked = places.with_columns(pl.col("start_ns", "end_ns") - view.span[0])
    rows = (
        events.get_column("start_ns").is_in(asked.get_column("start_ns").implode())
        & (events.get_column("class") <= MAX_DEVICE_CLASS)
    ).arg_true()
    if rows.len() < places.height:
        return None
    ops = events.select("track", "start_ns", "end_ns")[rows].with_columns(row=rows.cast(pl.Int64))
    ops = ops.with_columns(rank=ranks.gather(ops.get_column("track")))
    keys = ["start_ns", "end_ns", "rank"]
    # Of equal places the first is the first of equal events, and so on.
    nth = pl.int_range(pl.len()).over(keys).alias("nth")
    both = asked.with_columns(nth).join(ops.with_columns(nth), on=[*keys, "nth"], how="inner")
    found = both.get_column("row")
    return found if found.len() == places.height else None


def pack_numbers(view: PageView, numbers: list[int]) -> Any:
    """Few numbers as they are, many as an entry of the binary part."""
    if len(numbers) <= MOST_IN_TEXT:
        return numbers
    return view.packed.add(pl.Series(numbers, dtype=pl.Int64))


def _critical_path(view: PageView) -> dict[str, Any] | None:
    """Pieces of the critical path, each with the place of its event plus 1; 0 where it has none."""
    if not view.has_device or view.timeline.merged:
        return None
    try:
        pieces = view.run.ask("critical_path")
    except MissingDataError:
        return None
    if pieces.is_empty() or pieces.height > MAX_PIECES:
        return None
    events = view.timeline.events
    of_device = events.get_column("class") <= MAX_DEVICE_CLASS
    ids = events.get_column("id")
    at = pl.Series([0] * pieces.height, dtype=pl.Int64)
    for column, rows in (("device_op_id", of_device), ("host_op_id", ~of_device)):
        rows = (rows & ids.is_not_null()).arg_true()
        found = rows.cast(pl.Int64).gather(find_rows(ids.gather(rows), pieces.get_column(column)))
        at = at + (found + 1).fill_null(0)
    starts = pieces.get_column("start_ns") - view.span[0]
    lengths = pieces.get_column("duration_ns")
    part, parts = _number_texts(pieces.get_column("part"))
    name, names = _number_texts(pieces.get_column("name"))
    numbers = {
        "gaps": (starts - (starts + lengths).shift(1, fill_value=0)).to_list(),
        "lengths": lengths.to_list(),
        "part": part,
        "name": name,
        "at": at.to_list(),
    }
    packed = {key: pack_numbers(view, values) for key, values in numbers.items()}
    return packed | {"parts": parts, "names": names}


def _number_texts(texts: pl.Series) -> tuple[list[int], list[str]]:
    """Each text's place among the different ones."""
    places: dict[str, int] = {}
    numbers = [places.setdefault(make_printable(text or ""), len(places)) for text in texts]
    return numbers, list(places)


def _windows(view: PageView) -> list[dict[str, Any]]:
    if not view.has_device:
        return []
    return [
        {
            "rank": r["rank"],
            "device": r["device_id"],
            "start": r["window_start_ns"] - view.span[0],
            "end": r["window_end_ns"] - view.span[0],
        }
        for r in view.answer.window
    ]
