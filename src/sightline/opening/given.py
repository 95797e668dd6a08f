"""One thing that a person gave, and what of it says whose recording it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from sightline.core.model.store import Member, Part
from sightline.core.model.tables import load_table

# Times below this are no dates but counted from some start: 1 January 2001.
EPOCH_NS = 978_307_200_000_000_000
_UNSURE = ("order", "host", None)  # a rank from there states nothing


@dataclass(frozen=True)
class Given:
    """One thing that a person gave: a recording, a store or a run folder, with its members."""

    name: str
    members: Sequence[Member]
    _read: dict[str, Any] = field(default_factory=dict, compare=False)

    @cached_property
    def has_timeline(self) -> bool:
        """Whether it says when a program ran: profiled kernels and samples go with any timeline.

        What a host's kernel saw is of all its programs, and of none.
        """
        return any(
            member.facts["rows"].get(table)
            for member in self.members
            if not member.facts.get("of_host")
            for table in ("device_ops", "host_ops")
        )

    def has(self, table: str) -> bool:
        """Whether a table has rows in any of its members."""
        return any(member.facts["rows"].get(table) for member in self.members)

    @cached_property
    def folder(self) -> Path:
        """The folder that it lies in."""
        return Path(self.name).absolute().parent

    @cached_property
    def formats(self) -> frozenset[str]:
        """The formats of its members."""
        return frozenset(self.list_facts("format"))

    @cached_property
    def ranks(self) -> frozenset[int]:
        """The ranks that it states; one that only stands in order is none."""
        return frozenset(
            facts["own_rank"]
            for _, _, facts in self.members
            if facts.get("own_rank") is not None and facts.get("rank_source") not in _UNSURE
        )

    def list_facts(self, name: str) -> list[Any]:
        """The known values of a fact."""
        return [f[name] for _, _, f in self.members if f.get(name) is not None]

    def list_values(self, table: str, column: str) -> set[str]:
        """The distinct texts of a column, of all members."""
        key = f"{table}.{column}"
        if key not in self._read:
            frames = (frame.select(pl.col(column).drop_nulls()) for frame in self._scan(table))
            self._read[key] = {t for f in frames for t in f.unique().collect().to_series()}
        values: set[str] = self._read[key]
        return values

    @cached_property
    def launches(self) -> Counter[str]:
        """How often each kernel ran, or was profiled, by its name; of a CPU program, each range."""
        every: Counter[str] = Counter()
        for table, where in (
            ("device_ops", pl.col("kind") == "kernel"),
            ("profiled_kernels", pl.lit(True)),
            ("host_ops", pl.lit(True)),
        ):
            for frame in () if every else self._scan(table):
                counts = frame.filter(where).group_by("name").agg(pl.len()).drop_nulls().collect()
                every.update(dict(counts.rows()))
        return every

    @cached_property
    def span(self) -> tuple[int, int]:
        """From when to when it was recorded, as its profiler says, else first to last event, ns."""
        starts, ends = self.list_facts("start_ns"), self.list_facts("end_ns")
        for table, first, last in (
            ("device_ops", "start_ns", "end_ns"),
            ("host_ops", "start_ns", "end_ns"),
            ("sched_events", "time_ns", "time_ns"),
        ):
            for frame in () if starts and ends else self._scan(table):
                begin, end = (
                    frame.select(pl.col(first).min(), pl.col(last).max().alias("end"))
                    .collect()
                    .row(0)
                )
                if begin is not None and end is not None:
                    starts.append(begin)
                    ends.append(end)
        return min(starts, default=0), max(ends, default=0)

    @property
    def is_dated(self) -> bool:
        """Whether its times are dates, which every host counts alike."""
        return min(self.span) >= EPOCH_NS

    def _scan(self, table: str) -> Iterator[pl.LazyFrame]:
        for number, (store, index, facts) in enumerate(self.members):
            if not facts["rows"].get(table):
                continue
            part = Part(store, index, facts["rank"], 0, number, facts)
            frame = part.scan(load_table(table))
            if frame is not None:
                yield frame


def name_both(one: Given, other: Given) -> tuple[str, str]:
    """What two are called in one sentence: their files' names, where these tell them apart."""
    names = Path(one.name).name, Path(other.name).name
    return names if names[0] != names[1] else (one.name, other.name)
