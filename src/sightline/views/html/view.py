"""The view of a whole page: with the timeline, and where in it each finding is."""

from __future__ import annotations

from functools import cached_property

import polars as pl

from sightline.core.page.declare import View
from sightline.core.page.pack import Entry, number_within
from sightline.views.html.evidence import find_evidence
from sightline.views.html.timeline.foresight import pack_events
from sightline.views.html.timeline.tracks import Timeline, make_timeline


class PageView(View):
    """A view with all events in lanes, packed as the page reads them."""

    @cached_property
    def places(self) -> list[pl.DataFrame]:
        """Where each of `judged` happens."""
        return [find_evidence(self.run, finding) for finding in self.judged]

    @cached_property
    def timeline(self) -> Timeline:
        """All events in lanes."""
        return make_timeline(self.run, self.span)

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
