"""Every event of the run on rows: streams, threads, annotations, counters."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.algebra.lookup import find_rows
from sightline.errors import MissingDataError
from sightline.report.html import blocks
from sightline.report.html.declare import Block, Panel, View
from sightline.report.html.evidence import pack_places
from sightline.report.html.panels._series import make_tracks
from sightline.report.html.timeline.tracks import CLASSES, MAX_DEVICE_CLASS, STATE_CLASSES
from sightline.text import make_printable

# A piece takes 5 bytes of the page, packed: a longer path is for `sightline critical-path`.
MAX_PIECES = 200_000

PANEL = Panel("timeline", "Timeline", 10, needs_findings=True)


def data(view: View) -> list[Block]:
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
        "names": line.names,
        "labels": line.labels,
        "details": line.details,
        "details_of": view.details_of,
        "classes": [*CLASSES, *(STATE_CLASSES if view.run.rows("sched_events") else ())],
        "in_tables": line.in_tables,
        "merged": line.merged,
        "counters": make_tracks(view),
        "marks": make_marks(view),
        "path": _critical_path(view),
        "windows": _windows(view),
    }
    return [block, *(blocks.make_text(note) for note in line.notes)]


def make_marks(view: View) -> list[dict[str, Any]]:
    """Where each finding happens, with what is said of it there: all places, in order of time."""
    marks = []
    for number, (finding, places) in enumerate(zip(view.judged, view.places, strict=True)):
        if places.is_empty():
            continue
        mark = {"finding": number, "title": make_printable(finding["title"])}
        mark |= {name: make_printable(finding[name] or "") for name in ("summary", "fix")}
        marks.append(mark | pack_places(places, view.span))
    return marks


def _critical_path(view: View) -> dict[str, Any] | None:
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
    part, parts = _number_texts(pieces.get_column("part"))
    name, names = _number_texts(pieces.get_column("name"))
    return {
        "starts": starts.diff().fill_null(starts[0]).to_list(),
        "lengths": pieces.get_column("duration_ns").to_list(),
        "part": part,
        "parts": parts,
        "name": name,
        "names": names,
        "at": at.to_list(),
    }


def _number_texts(texts: pl.Series) -> tuple[list[int], list[str]]:
    """Each text's place among the different ones."""
    places: dict[str, int] = {}
    numbers = [places.setdefault(make_printable(text or ""), len(places)) for text in texts]
    return numbers, list(places)


def _windows(view: View) -> list[dict[str, Any]]:
    if not view.has_device:
        return []
    return [
        {
            "rank": r["rank"],
            "device": r["device_id"],
            "start": r["window_start_ns"] - view.span[0],
            "end": r["window_end_ns"] - view.span[0],
        }
        for r in view.summary["window"]
    ]
