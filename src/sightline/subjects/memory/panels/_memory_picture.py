"""The picture of memory over time: its blocks, stacked, each as long as it lived.

The level of detail is made here: of equally many events each, the moment at which most is
allocated; the blocks that hold most over these moments one by one, all others as one. So the page's
work does not grow with the recording, and what is drawn at a moment adds up to what was allocated
then.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.core.page.declare import Block
from sightline.subjects.memory.allocations import LAST_EVENT, follow_allocations, select_memory
from sightline.subjects.memory.panels._stack_texts import StackTexts
from sightline.subjects.memory.tensor_kinds import KINDS, classify_blocks

_MOMENTS = 600  # columns of the picture
_BLOCKS = 1_500  # drawn one by one
# A twentieth of the events: enough to see which blocks make the peak.
_CLOSE = 20


def make_pictures(run: Run, peak: dict[str, Any], origin_ns: int) -> list[tuple[str, Block]]:
    """The whole recording, and the events around the peak, of one device's memory."""
    found = follow_allocations(run)
    events = select_memory(found, found.events, peak).drop_nulls("allocated_bytes")
    blocks = select_memory(found, classify_blocks(run), peak).select(
        "address", "bytes", "stack_id", "kind", "allocated", "released"
    )
    stacks = StackTexts(run)
    made = [("the whole recording", _make(events, blocks, stacks, origin_ns))]
    if events.height > 2 * _MOMENTS:
        row = events.get_column("event").search_sorted(peak["event"])
        start = max(0, int(row) - events.height // (2 * _CLOSE))
        near = events.slice(start, events.height // _CLOSE)
        made.append(("around the peak", _make(near, blocks, stacks, origin_ns)))
    return made


def _choose_moments(events: pl.DataFrame) -> pl.DataFrame:
    """Of equally many events each, the first after which most is allocated."""
    edges = [number * events.height // _MOMENTS for number in range(_MOMENTS + 1)]
    rows = []
    for start, end in pairwise(edges):
        part = events.slice(start, end - start)
        allocated = part.get_column("allocated_bytes")
        rows += [part.filter(allocated == allocated.max()).head(1)] if end > start else []
    return pl.concat(rows) if rows else events


def _make(events: pl.DataFrame, blocks: pl.DataFrame, stacks: StackTexts, origin_ns: int) -> Block:
    moments = _choose_moments(events)
    at = moments.get_column("event")
    last = moments.height - 1
    start = at.search_sorted(blocks.get_column("allocated").fill_null(-1)).cast(pl.Int32)
    end = at.search_sorted(blocks.get_column("released").fill_null(LAST_EVENT)).cast(pl.Int32) - 1
    spans = blocks.with_columns(first=start, last=end).filter(pl.col("first") <= pl.col("last"))
    held = spans.select(
        held=pl.col("bytes") * (pl.col("last") - pl.col("first") + 1).cast(pl.Int64)
    ).to_series()
    least = held.top_k(_BLOCKS).min()
    shown = (
        spans.with_columns(held)
        .filter(pl.col("held") >= least)
        .sort("held", "allocated", descending=[True, False])
        .head(_BLOCKS)
        .sort("allocated", "address", nulls_last=False)
    )
    rest = moments.get_column("allocated_bytes") - _sum_blocks(shown, last)
    return {
        "kind": "memory",
        "moments": (moments.get_column("time_ns") - origin_ns).to_list(),
        "allocated": moments.get_column("allocated_bytes").to_list(),
        "rest": rest.to_list(),
        "rest_name": _name_rest(spans, shown, moments.get_column("allocated_bytes"), last),
        "events": events.height,
        "kinds": list(KINDS),
        "first": shown.get_column("first").to_list(),
        "last": shown.get_column("last").to_list(),
        "bytes": shown.get_column("bytes").to_list(),
        "of": [KINDS.index(kind) for kind in shown.get_column("kind")],
        "stack": [stacks.number(stack) for stack in shown.get_column("stack_id")],
        "stacks": stacks.texts,
    }


def _sum_blocks(spans: pl.DataFrame, last: int) -> pl.Series:
    """What these blocks hold at each moment, from 0 to the last."""
    change = [0] * (last + 2)
    for first, end, size in spans.select("first", "last", "bytes").iter_rows():
        change[first] += size
        change[end + 1] -= size
    return pl.Series(change[:-1], dtype=pl.Int64).cum_sum()


def _name_rest(spans: pl.DataFrame, shown: pl.DataFrame, allocated: pl.Series, last: int) -> str:
    """What is allocated and not drawn as a block: too small, or there before the recording."""
    earlier = int((allocated - _sum_blocks(spans, last)).min() or 0)  # type: ignore[arg-type]
    if shown.height == spans.height:
        return "from earlier"
    return "smaller blocks, and from earlier" if earlier > 0 else "smaller blocks"
