"""The events of a run on disk, lane by lane: what the server answers from.

Columns (see COLUMNS) hold the events of one lane after another, sorted by start within an extent;
in a lane nothing overlaps. A large lane is several extents, one after another in time. So what a
range shows is found by search, and how long a run of events took is a difference of running sums:
no level of detail of the lanes is stored, and an answer costs what its pixels cost. What names take
in a range has one (names.py), since no lane holds one name alone.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sightline.views.serve.columns import map_column
from sightline.views.serve.lengths import RECORD

# Times are ns from the run's first event. `before` is the sum of the lengths of all events that
# stand before; `id` is the row's id in its table, -1 where the table has none.
COLUMNS = {"start": "q", "end": "q", "before": "q", "name": "I", "class": "B", "id": "q"}
# Disjoint, sorted stretches in which a device ran something: start, end, ns covered before.
COVER = {"cover_start": "q", "cover_end": "q", "cover_before": "q"}
# Of each table of events: what its names have taken up to the edges of slices (names.py).
SUMS = {"name_sums": "q"}
# Of each name of `timed`: how long its device operations took (lengths.py).
LENGTHS = {"lengths": "q"}


@dataclass
class Lane:
    """One row of the timeline: its track, its nesting level, and where its events stand."""

    track: int
    level: int
    extents: list[tuple[int, int]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many events."""
        return sum(b - a for a, b in self.extents)


@dataclass(frozen=True)
class Cover:
    """When at least one operation of the classes 0 to `upto` ran on a device."""

    rank: int
    device: int
    upto: int
    first: int
    last: int


@dataclass(frozen=True)
class Sums:
    """What a table's names took (names.py): their numbers, a slice's ns, and where it begins."""

    table: str
    names: list[int]
    width: int
    slices: int
    first: int


_FILE = "index.json"


@dataclass
class Index:
    """A prepared run."""

    folder: Path
    origin_ns: int
    length_ns: int
    tracks: list[dict[str, Any]]
    keys: list[tuple[str, tuple[Any, ...]]]  # of each track: its table, and what tells it apart
    lanes: list[Lane]
    names: list[str]  # as recorded
    labels: list[str]
    totals: list[tuple[int, int]]  # of each name: events, ns
    covers: list[Cover]
    sums: list[Sums]
    timed: list[int]

    def write(self) -> None:
        """Keep what is not in columns beside them."""
        text = json.dumps(asdict(replace(self, folder=Path())), default=str)
        (self.folder / _FILE).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Index:
        """An index that was kept. Where it is damaged: OSError, ValueError, TypeError, KeyError."""
        kept = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        kept["folder"] = folder
        kept["keys"] = [(table, tuple(key)) for table, key in kept["keys"]]
        kept["lanes"] = [
            Lane(lane["track"], lane["level"], [(a, b) for a, b in lane["extents"]])
            for lane in kept["lanes"]
        ]
        kept["totals"] = [(n, ns) for n, ns in kept["totals"]]
        kept["covers"] = [Cover(**cover) for cover in kept["covers"]]
        kept["sums"] = [Sums(**sums) for sums in kept["sums"]]
        index = cls(**kept)
        if any(len(index.columns[name]) < index.events for name in COLUMNS):
            raise ValueError("a column is cut off")
        return index

    @cached_property
    def columns(self) -> dict[str, Sequence[int]]:
        """All columns, mapped."""
        known = {**COLUMNS, **COVER, **SUMS, **LENGTHS}
        return {name: map_column(self.folder / name, code) for name, code in known.items()}

    @property
    def events(self) -> int:
        """How many there are."""
        return sum(lane.count for lane in self.lanes)

    def count_between(self, first: int, last: int) -> int:
        """How many events begin from one moment until before another."""
        start = self.columns["start"]
        return sum(
            bisect_left(start, last, a, b) - bisect_left(start, first, a, b)
            for lane in self.lanes
            for a, b in lane.extents
        )

    def find_middle(self, most: int) -> tuple[int, int]:
        """The longest span around the run's middle event in which at most so many events begin."""
        moments = range(self.length_ns + 1)
        middle = bisect_left(moments, self.events // 2, key=lambda at: self.count_between(0, at))

        def span(wide: int) -> tuple[int, int]:
            return max(0, middle - wide), min(self.length_ns + 1, middle + wide)

        wide = bisect_right(moments, most, key=lambda wide: self.count_between(*span(wide)))
        return span(max(1, wide - 1))

    @cached_property
    def _places(self) -> tuple[list[int], list[int]]:
        """Where extents begin, in order, and whose they are."""
        found = sorted((a, lane) for lane, row in enumerate(self.lanes) for a, _ in row.extents)
        return [a for a, _ in found], [lane for _, lane in found]

    def lane_of(self, place: int) -> int:
        """The lane of an event."""
        begins, lanes = self._places
        return lanes[bisect_right(begins, place) - 1]

    def at(self, lane: int, moment: int) -> int | None:
        """The event of a lane that is open at a moment (its start counts, its end does not)."""
        start, end = self.columns["start"], self.columns["end"]
        for a, b in self.lanes[lane].extents:
            i = bisect_right(start, moment, a, b) - 1
            if i >= a and (end[i] > moment or start[i] == moment):
                return i
        return None

    def find(self, track: int, level: int, start: int, row_id: int) -> int | None:
        """The place of a row of a table whose track, level and start are known."""
        starts, ids = self.columns["start"], self.columns["id"]
        for lane in self.lanes:
            if (lane.track, lane.level) != (track, level):
                continue
            for a, b in lane.extents:
                i = bisect_left(starts, start, a, b)
                if i < b and starts[i] == start and ids[i] == row_id:
                    return i
        return None

    def lengths_of(self, name: str) -> list[int] | None:
        """A name's record of lengths.py; None where no device operation has the name."""
        code = self._codes.get(name)
        if code is None or code not in self._timed:
            return None
        begin = self._timed[code] * RECORD
        return list(self.columns["lengths"][begin : begin + RECORD])

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {name: code for code, name in enumerate(self.names)}

    @cached_property
    def _timed(self) -> dict[int, int]:
        return {code: i for i, code in enumerate(self.timed)}

    def covered(self, cover: Cover, moment: int) -> int:
        """How many ns before a moment are covered."""
        starts = self.columns["cover_start"]
        i = bisect_right(starts, moment, cover.first, cover.last) - 1
        if i < cover.first:
            return 0
        done = self.columns["cover_before"][i] - self.columns["cover_before"][cover.first]
        return done + min(moment, self.columns["cover_end"][i]) - starts[i]
