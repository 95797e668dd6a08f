"""The span of a recording: its first and its last moment."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import MANY_ROWS, Run

Span = tuple[int, int]
# The kind of the remark (table quality) that a recording is a part of a longer one.
EXCERPT = "excerpt"

# What a timeline is drawn from, and when a row of it begins and ends.
_TIMELINE = (
    *((name, "start_ns", "end_ns") for name in ("device_ops", "host_ops", "device_ranges")),
    *((name, "time_ns", "time_ns") for name in ("counters", "memory_events", "sched_events")),
)


# Of recordings that lie further apart, each has a clock of its own: one counts from 0 or lacks its
# date, another from 1970. No program is looked at over the years between them.
_OTHER_CLOCK_NS = 86_400_000_000_000


def find_one_clock(run: Run) -> Span | None:
    """The span of those recordings that share a clock, of several clocks the one with most rows.

    Recordings belong together where less than a day lies between them.
    """
    rows = [
        frame
        for name, first, last in _TIMELINE
        if run.rows(name)
        for frame in [
            run.scan(name)
            .group_by("recording_id")
            .agg(a=pl.min(first), b=pl.max(last), n=pl.len())
            .collect(engine="streaming")
        ]
    ]
    if not rows:
        return None
    edges = pl.concat(rows).drop_nulls(["a", "b"]).sort("a", "b")
    groups: list[tuple[int, int, int]] = []
    for a, b, n in edges.select("a", "b", "n").iter_rows():
        if groups and a <= groups[-1][1] + _OTHER_CLOCK_NS:
            begin, end, so_far = groups[-1]
            groups[-1] = (begin, max(end, b), so_far + n)
        else:
            groups.append((a, b, n))
    return max(groups, key=lambda group: group[2])[:2] if groups else None


def find_span(run: Run) -> Span | None:
    """The first and the last moment of a recording, in ns on the run's clock."""
    edges = []
    for name, first, last in _TIMELINE:
        if run.rows(name):
            is_large = run.rows(name) >= MANY_ROWS
            rows = (
                run.scan(name)
                if is_large
                else run.table(name, list(dict.fromkeys((first, last)))).lazy()
            )
            ends = pl.min(first).alias("first"), pl.max(last).alias("last")
            edges.append(rows.select(ends).collect(engine="streaming").row(0))
    known = [(a, b) for a, b in edges if a is not None and b is not None]
    return (min(a for a, _ in known), max(b for _, b in known)) if known else None
