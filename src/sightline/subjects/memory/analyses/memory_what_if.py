"""How much lower the peak would be without something: a kind of block, or one call stack's.

Each answer is exact for the recorded order of events: all allocations and frees are gone through
again without these blocks. It is the most that can be gained, since what replaces them (a
recomputed activation, a shard) takes memory, too. `expandable segments` compares what was taken
from the driver with the least that serves the same blocks: the most bytes active at once, in pages
of 2 MiB, the granularity of cuMemCreate.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, make_empty, number, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.memory.allocations import (
    MEMORY,
    find_peaks_without,
    follow_allocations,
    select_memory,
)
from sightline.subjects.memory.memory_stacks import describe_stacks
from sightline.subjects.memory.tensor_kinds import EARLIER, classify_blocks, list_unplaced

ANALYSIS = Analysis(
    "memory_what_if",
    "How much lower would the peak be without something?",
    (
        RANK,
        number("device_id", "device; null for the host"),
        text("memory_kind", "device, pinned, ..."),
        text("without", "what is taken out: a kind, or a place of the program", required=True),
        text("of", "kind, place or allocator", required=True),
        size("before_bytes", "the peak as it was"),
        size("after_bytes", "the peak without it"),
        size("gain_bytes", "the difference"),
    ),
    needs=("memory_events",),
)
_PLACES = 5  # places of which the peak is counted anew, those with most bytes at the peak
_PAGE = 2 << 20


def run(run: Run) -> pl.DataFrame:
    """Rows for each kind and the largest places at the peak, the largest gain first."""
    found, blocks, unplaced = follow_allocations(run), classify_blocks(run), list_unplaced(run)
    stacks = describe_stacks(run)
    at_peak = run.ask("peak_blocks")
    parts = [make_empty(ANALYSIS.columns)]
    for peak in run.ask("memory_peak").iter_rows(named=True):
        here = at_peak.filter(pl.col(name).eq_missing(peak[name]) for name in MEMORY)
        sums = select_memory(found, found.events, peak).select("event", "allocated_bytes")
        columns = ["allocated", "released", "bytes", "kind", "stack_id"]
        mine = pl.concat(
            select_memory(found, rows, peak).select(columns) for rows in (blocks, unplaced)
        )
        before = peak["allocated_bytes"]
        kinds = _list_values(here, "kind", None)
        places = _list_values(here, "place", _PLACES)
        of_stack = stacks.select("stack_id", group=_number(pl.col("place"), places))
        for of, names, grouped in (
            ("kind", kinds, mine.with_columns(group=_number(pl.col("kind"), kinds))),
            ("place", places, mine.join(of_stack, on="stack_id", how="left")),
        ):
            answers = find_peaks_without(sums, grouped, len(names))
            for name, after in zip(names, answers, strict=True):
                parts.append(_make_row(peak, of, name, before, after))
        if peak["most_reserved_bytes"] and peak["most_active_bytes"] is not None:
            reserved = peak["most_reserved_bytes"]
            least = min(-(-peak["most_active_bytes"] // _PAGE) * _PAGE, reserved)
            parts.append(_make_row(peak, "allocator", "expandable segments", reserved, least))
    return pl.concat(parts).sort(
        *MEMORY, "gain_bytes", "without", descending=[False] * 3 + [True, False], nulls_last=True
    )


def _number(column: pl.Expr, names: list[str]) -> pl.Expr:
    """The place of each value among the names; null where it is not among them."""
    number = pl.lit(None, pl.Int64)
    for place, name in enumerate(names):
        number = pl.when(column == name).then(place).otherwise(number)
    return number


def _list_values(at_peak: pl.DataFrame, column: str, most: int | None) -> list[str]:
    found = (
        at_peak.filter(pl.col("kind") != EARLIER)
        .drop_nulls(column)
        .group_by(column)
        .agg(pl.col("bytes").sum())
        .sort("bytes", column, descending=[True, False])
    )
    return found.head(most or found.height).get_column(column).to_list()


def _make_row(
    peak: dict[str, object], of: str, without: str, before: int, after: int
) -> pl.DataFrame:
    row = {name: peak[name] for name in MEMORY} | {
        "without": without,
        "of": of,
        "before_bytes": before,
        "after_bytes": after,
        "gain_bytes": before - after,
    }
    return pl.DataFrame([row], schema={c.name: c.dtype for c in ANALYSIS.columns})
