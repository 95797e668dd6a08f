"""What a panel is, and what it may ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from sightline.model.run import Run
from sightline.report.html.timeline.pack import Packed
from sightline.report.html.timeline.tracks import Timeline, timeline

# A piece of a panel, as the page draws it: see blocks.py.
Block = dict[str, Any]


@dataclass(frozen=True)
class Panel:
    """One entry of the page's list.

    Its module also has `data(view) -> list[Block]`. Where the recording lacks what the panel
    shows, `data` raises MissingDataError, and the panel "Recording" says why it is absent.
    """

    name: str
    title: str
    order: int


@dataclass
class View:
    """The run, the report's data, and the page's binary columns."""

    run: Run
    summary: dict[str, Any]
    packed: Packed = field(default_factory=Packed)
    absent: list[tuple[str, str]] = field(default_factory=list)  # title of a panel, why

    @cached_property
    def has_device(self) -> bool:
        """Whether there is a device's timeline."""
        return bool(self.run.rows("device_ops"))

    @cached_property
    def span(self) -> tuple[int, int]:
        """First and last moment of the recording; what the page calls 0 is the first."""
        edges = []
        for table in ("device_ops", "host_ops", "device_ranges"):
            if self.run.rows(table):
                row = self.run.table(table).select(pl.col("start_ns").min(), pl.col("end_ns").max())
                edges.append(row.row(0))
        for table in ("counters", "memory_events"):
            if self.run.rows(table):
                row = self.run.table(table).select(a=pl.col("time_ns").min(), b=pl.max("time_ns"))
                edges.append(row.row(0))
        known = [(a, b) for a, b in edges if a is not None and b is not None]
        if not known:
            return (0, 0)
        return (min(a for a, _ in known), max(b for _, b in known))

    @cached_property
    def timeline(self) -> Timeline:
        """All events in lanes."""
        return timeline(self.run, self.span[0])
