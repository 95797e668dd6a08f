"""What of a recording lies between two moments: a run small enough for every analysis.

What lasts longer is cut to the span, so that what a function or an operator took is what it took
there. A step that is cut is no step any more, since it would pass for a short one, and an operation
of a device that is cut is left out, since nobody knows what part of its work fell into the span.
A launch before the span is absent, as it is where recording begins in the middle of a run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from sightline.core import registry
from sightline.core.algebra.lookup import find_rows
from sightline.core.model.columns import Table
from sightline.core.model.run import Run
from sightline.core.model.span import EXCERPT, Span
from sightline.core.model.store import FROM_FACTS, ID_SHIFT, READ_FAILURES, Part, explain_unreadable
from sightline.core.model.tables import load_table
from sightline.core.units import format_ns

_CALLS = "host_ops"
_END = "subtree_end_id"
# Rows of these are about rows of others, and go with them.
_AT_END = ("memory_blocks", "memory_segments")
_OF_OTHERS = {"device_op_id": "device_ops", "host_op_id": "host_ops"}


def open_excerpt(run: Run, span: Span, length_ns: int) -> Run:
    """What of a run lies in a span (ns on its clock), as a run in memory of its own.

    `length_ns` is how long the whole run is, which its remark says. Raises StoreError where the
    recording's store is damaged.
    """
    parts = []
    for part in run.parts:
        frames = read_excerpt(part, span)
        rows = {name: frame.drop("rank") for name, frame in frames.items() if frame.height}
        counts = {name: frame.height for name, frame in rows.items()}
        facts = {**describe_excerpt(part.facts, span, length_ns), "rows": counts, "constants": {}}
        # Ids, ranks and clocks are those of the run already: nothing is to be moved again.
        number = part.recording_id
        parts.append(Part(Path(), number, part.rank, part.rank, number, facts, tables=rows))
    return Run(parts)


def read_excerpt(part: Part, span: Span) -> dict[str, pl.DataFrame]:
    """The rows of each table that belong to the span, in ns on the run's clock.

    Of tables without times, those about a kept operation or call, and all where a table is about
    neither. Calls are numbered anew, since a subtree is a run of numbers. Raises StoreError where
    the recording's store is damaged.
    """
    kept: dict[str, pl.DataFrame] = {}
    tables = [load_table(name) for name in registry.list_names("tables")]
    # Others are about these two.
    for table in sorted(tables, key=lambda table: table.name not in _OF_OTHERS.values()):
        rows = part.scan(table)
        if rows is None:
            continue
        try:
            found = _select_rows(table, rows, span, kept).collect(engine="streaming")
            kept[table.name] = _add_parents(found, rows, span) if table.name == _CALLS else found
        except READ_FAILURES as error:
            raise explain_unreadable(table.name, part.store, error) from error
    if _ends_early(part, span):
        # They say how the recording's end looked, which is not in the span.
        kept = {name: rows for name, rows in kept.items() if name not in _AT_END}
    if _CALLS not in kept:
        return kept
    ids = kept[_CALLS].get_column("host_op_id")
    first = part.recording_id << ID_SHIFT
    return {
        table.name: _renumber(table, kept[table.name], ids, first)
        for table in tables
        if table.name in kept
    }


def _ends_early(part: Part, span: Span) -> bool:
    """Whether an allocator's history goes on behind the span."""
    events = part.scan(load_table("memory_events"))
    if events is None:
        return False
    last = events.select(pl.col("time_ns").max()).collect().item()
    return last is not None and last >= span[1]


def describe_excerpt(facts: dict[str, Any], span: Span, length_ns: int) -> dict[str, Any]:
    """What is known of the recording, with the remark that this is a part of it."""
    text = (
        f"this is {format_ns(span[1] - span[0])} of a recording of {format_ns(length_ns)}: what "
        "lasted longer is cut to that span, and what was launched before it has no launch"
    )
    remark = {"kind": EXCERPT, "severity": "info", "text": text}
    return {**facts, "quality": [*facts.get("quality", []), remark]}


def _select_rows(
    table: Table, rows: pl.LazyFrame, span: Span, kept: dict[str, pl.DataFrame]
) -> pl.LazyFrame:
    first, last = span
    columns = set(table.schema)
    if {"start_ns", "end_ns"} <= columns and table.name not in FROM_FACTS:
        start, end = pl.col("start_ns"), pl.col("end_ns")
        if table.name == "device_ops":
            return rows.filter((start >= first) & (end <= last))
        # What has no length lies in the span if it begins there.
        return _cut(rows.filter((start < last) & ((end > first) | (start >= first))), span)
    if moments := [name for name in ("time_ns", "created_ns") if name in columns]:
        return rows.filter(pl.col(moments[0]).is_between(first, last, closed="left"))
    for column, of in _OF_OTHERS.items():
        if column in columns and of in kept:
            ids = kept[of].get_column(column).implode()
            rows = rows.filter(pl.col(column).is_null() | pl.col(column).is_in(ids))
    return rows


def _cut(rows: pl.LazyFrame, span: Span) -> pl.LazyFrame:
    if "layer" in rows.collect_schema():
        is_cut = (pl.col("start_ns") < span[0]) | (pl.col("end_ns") > span[1])
        is_step = pl.col("layer") == "step"
        layer = pl.when(is_cut & is_step).then(pl.lit("annotation")).otherwise("layer")
        rows = rows.with_columns(layer=layer)
    return rows.with_columns(pl.col("start_ns", "end_ns").clip(*span))


def _add_parents(calls: pl.DataFrame, rows: pl.LazyFrame, span: Span) -> pl.DataFrame:
    """The calls and all that they lie in.

    A call may last longer than the one that it lies in, by what a clock rounds: its parent can
    have ended before the span.
    """
    while True:
        ids = calls.get_column("host_op_id")
        missing = calls.get_column("parent_id").drop_nulls().unique()
        missing = missing.filter(find_rows(ids, missing).is_null())
        if missing.is_empty():
            return calls
        wanted = rows.filter(pl.col("host_op_id").is_in(missing.implode()))
        added = _cut(wanted, span).collect(engine="streaming")
        if added.is_empty():  # a damaged recording names parents that it does not have
            return calls
        calls = pl.concat([calls, added]).sort("host_op_id")


def _renumber(table: Table, rows: pl.DataFrame, ids: pl.Series, first: int) -> pl.DataFrame:
    """The rows with calls numbered from `first` on, in the order of `ids`; no number of others."""
    named = [c.name for c in table.columns if c.joins == "host_ops.host_op_id"]
    if table.name == _CALLS:
        named.append("host_op_id")
    known = {name: find_rows(ids, rows.get_column(name)) for name in named if name != _END}
    if _END in named:
        known[_END] = ids.search_sorted(rows.get_column(_END)).cast(pl.Int64)
    return rows.with_columns((place + first).alias(name) for name, place in known.items())
