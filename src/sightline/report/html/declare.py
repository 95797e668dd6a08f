"""What a panel is, and what it may ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from sightline.model.run import Run
from sightline.opening.excerpt import find_span
from sightline.report.html.evidence import find_evidence
from sightline.report.html.timeline.foresight import pack_events
from sightline.report.html.timeline.pack import Entry, Packed, number_within
from sightline.report.html.timeline.tracks import Timeline, make_timeline

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
    # Whether `data` looks at the findings. What does not is made while the rules run.
    needs_findings: bool = False


@dataclass
class View:
    """The run, the report's data, and the page's binary columns."""

    run: Run
    summary: dict[str, Any] = field(default_factory=dict)  # empty until the rules have run
    packed: Packed = field(default_factory=Packed)
    absent: list[tuple[str, str]] = field(default_factory=list)  # title of a panel, why
    served: bool = False  # from a server, which the page can ask

    @cached_property
    def has_device(self) -> bool:
        """Whether there is a device's timeline."""
        return bool(self.run.rows("device_ops"))

    @cached_property
    def judged(self) -> list[dict[str, Any]]:
        """The findings that are cards of the page, in its order."""
        return [f for f in self.summary["findings"] if not f["abstained"]]

    @cached_property
    def places(self) -> list[pl.DataFrame]:
        """Where each of `judged` happens."""
        return [find_evidence(self.run, finding) for finding in self.judged]

    @cached_property
    def span(self) -> tuple[int, int]:
        """First and last moment of the recording; what the page calls 0 is the first."""
        return find_span(self.run) or (0, 0)

    @cached_property
    def timeline(self) -> Timeline:
        """All events in lanes."""
        return make_timeline(self.run, self.span[0])

    @property
    def details_of(self) -> list[list[int]]:
        """For each name the places of its details in `timeline.details`: what `columns` counts."""
        return self._details[1]

    @cached_property
    def _details(self) -> tuple[pl.Series, list[list[int]]]:
        events = self.timeline.events
        return number_within(events.get_column("name"), events.get_column("detail"))

    @property
    def columns(self) -> dict[str, Entry]:
        """The timeline's events, packed: where each column stands in the page's binary part."""
        return self._columns[0]

    @property
    def bases(self) -> list[int]:
        """For each lane what its events' starts are counted from (timeline/foresight.py)."""
        return self._columns[1]

    @cached_property
    def _columns(self) -> tuple[dict[str, Entry], list[int]]:
        events, add = self.timeline.events, self.packed.add
        kinds = [track["kind"] for track in self.timeline.tracks]
        columns, bases = pack_events(events, kinds, self.packed)
        columns["class"] = add(events.get_column("class"))
        columns["detail"] = add(self._details[0])
        if self.timeline.merged:
            columns["count"] = add(events.get_column("count"))
            columns["busy"] = add(events.get_column("busy_ns"))
        return columns, bases
