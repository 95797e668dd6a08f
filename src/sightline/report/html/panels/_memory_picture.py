"""The picture of memory over time: its blocks, stacked, each as long as it lived.

The level of detail is made here: of equally many events each, the moment at which most is
allocated; the blocks that hold most over these moments one by one, all others as one. So the page's
work does not grow with the recording, and what is drawn at a moment adds up to what was allocated
then.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.model.run import Run
from sightline.report.html.declare import Block
from sightline.text import make_printable
from sightline.timeline.allocations import MEMORY, follow_allocations
from sightline.timeline.tensor_kinds import KINDS, classify_blocks

_MOMENTS = 600  # columns of the picture
_BLOCKS = 1_500  # drawn one by one
_FRAMES = 14  # lines of a stack that hovering shows
# A twentieth of the events: enough to see which blocks make the peak.
_CLOSE = 20


def make_pictures(run: Run, peak: dict[str, Any], origin_ns: int) -> list[tuple[str, Block]]:
    """The whole recording, and the events around the peak, of one device's memory."""
    here = [pl.col(name).eq_missing(peak[name]) for name in MEMORY]
    events = (
        follow_allocations(run)
        .events.filter(*here)
        .select("event", "time_ns", "allocated_bytes")
        .drop_nulls("allocated_bytes")
    )
    blocks = classify_blocks(run).filter(*here)
    stacks = _Stacks(run)
    made = [("the whole recording", _make(events, blocks, stacks, origin_ns))]
    if events.height > 2 * _MOMENTS:
        row = events.get_column("event").search_sorted(peak["event"])
        start = max(0, int(row) - events.height // (2 * _CLOSE))
        near = events.slice(start, events.height // _CLOSE)
        made.append(("around the peak", _make(near, blocks, stacks, origin_ns)))
    return made


def _make(events: pl.DataFrame, blocks: pl.DataFrame, stacks: _Stacks, origin_ns: int) -> Block:
    part = pl.int_range(pl.len(), dtype=pl.Int64) * _MOMENTS // max(events.height, _MOMENTS)
    moments = (
        events.with_columns(part=part)
        .sort("part", "allocated_bytes", "event", descending=[False, True, False])
        .unique("part", keep="first", maintain_order=True)
        .sort("event")
    )
    at = moments.get_column("event")
    last = moments.height - 1
    shown = (
        blocks.with_columns(
            first=at.search_sorted(blocks.get_column("allocated").fill_null(-1)).cast(pl.Int64),
            last=(at.search_sorted(blocks.get_column("released").fill_null(2**62))).cast(pl.Int64)
            - 1,
        )
        .filter(pl.col("first") <= pl.col("last"))
        .with_columns(held=pl.col("bytes") * (pl.col("last") - pl.col("first") + 1))
        .sort("held", "allocated", descending=[True, False])
        .head(_BLOCKS)
        .sort("allocated", "address", nulls_last=False)
    )
    change = [0] * (last + 2)
    for first, end, size in shown.select("first", "last", "bytes").iter_rows():
        change[first] += size
        change[end + 1] -= size
    drawn = pl.Series(change[:-1], dtype=pl.Int64).cum_sum()
    rest = moments.get_column("allocated_bytes") - drawn
    return {
        "kind": "memory",
        "moments": (moments.get_column("time_ns") - origin_ns).to_list(),
        "allocated": moments.get_column("allocated_bytes").to_list(),
        "rest": rest.to_list(),
        "events": events.height,
        "kinds": list(KINDS),
        "first": shown.get_column("first").to_list(),
        "last": shown.get_column("last").to_list(),
        "bytes": shown.get_column("bytes").to_list(),
        "of": [KINDS.index(kind) for kind in shown.get_column("kind")],
        "stack": [stacks.number(stack) for stack in shown.get_column("stack_id")],
        "stacks": stacks.texts,
    }


class _Stacks:
    """Texts of call stacks, innermost frame first; equal ones once, 0 for none."""

    def __init__(self, run: Run) -> None:
        self.texts: list[list[str]] = [["no stack was recorded"]]
        self._nodes = {
            node: (parent, frame)
            for node, parent, frame in run.table("stacks")
            .select("stack_id", "parent_id", "frame_id")
            .iter_rows()
        }
        self._frames = {
            number: make_printable(f"{function} ({file}:{line})" if file else function)
            for number, function, file, line in run.table("frames")
            .select("frame_id", "function", "file", "line")
            .iter_rows()
        }
        self._numbers: dict[int | None, int] = {None: 0}

    def number(self, stack: int | None) -> int:
        """The place of a stack's text."""
        if stack not in self._numbers:
            self._numbers[stack] = len(self.texts)
            self.texts.append(self._write(stack))
        return self._numbers[stack]

    def _write(self, stack: int | None) -> list[str]:
        lines: list[str] = []
        # The allocator's own frames are the innermost, and the same for all.
        while stack in self._nodes:
            stack, frame = self._nodes[stack]
            text = self._frames.get(frame, "")
            if lines or ("CachingAllocator" not in text and "::unwind" not in text):
                lines.append(text[:160])
        users = [line for line in lines if ".py:" in line]
        return (users or lines)[:_FRAMES] or ["no stack was recorded"]
