"""Every event of the run on rows: streams, threads, annotations, counters."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.errors import MissingDataError
from sightline.report.html import blocks
from sightline.report.html.declare import Block, Panel, View
from sightline.report.html.evidence import find_evidence, pack_evidence
from sightline.report.html.panels._series import make_counter_blocks
from sightline.report.html.timeline.tracks import CLASSES
from sightline.text import make_printable

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
        "classes": list(CLASSES),
        "in_tables": line.in_tables,
        "merged": line.merged,
        "counters": make_counter_blocks(view),
        "marks": make_marks(view),
        "windows": _windows(view),
    }
    return [block, *(blocks.make_text(note) for note in line.notes)]


def make_marks(view: View) -> list[dict[str, Any]]:
    """Where each finding's evidence is: ranges to mark in the timeline."""
    found = []
    for number, finding in enumerate(f for f in view.summary["findings"] if not f["abstained"]):
        ranges = pack_evidence(find_evidence(view.run, finding), view.span)["ranges"]
        if ranges:
            title = make_printable(finding["title"]).replace("-", " ")
            found.append({"finding": number, "title": title, "ranges": ranges})
    return found


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
