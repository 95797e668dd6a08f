"""The span of a recording: its first and its last moment."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import MANY_ROWS, Run

Span = tuple[int, int]

# What a timeline is drawn from, and when a row of it begins and ends.
_TIMELINE = (
    *((name, "start_ns", "end_ns") for name in ("device_ops", "host_ops", "device_ranges")),
    *((name, "time_ns", "time_ns") for name in ("counters", "memory_events", "sched_events")),
)


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
