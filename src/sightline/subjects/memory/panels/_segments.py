"""The picture of an allocator's segments: each a row, its blocks where they lie.

What is drawn is bounded: the largest segments, and in each of them neighbours that are too small to
be seen as one.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.core.page.declare import Block
from sightline.core.text import make_printable
from sightline.subjects.memory.allocations import follow_allocations
from sightline.subjects.memory.panels._stack_texts import StackTexts
from sightline.subjects.memory.tensor_kinds import KINDS, classify_blocks

_SEGMENTS = 240  # rows
_PARTS = 500  # of the largest segment's width: what is smaller is not a pixel wide
_BY = ["rank", "device_id"]
_COMMON_POOL = "[0, 0]"
_FREE, _MIXED = len(KINDS), len(KINDS) + 1


def make_segments(run: Run, rank: int, device: int | None) -> Block:
    """The segments of one device, or of the host, the largest first."""
    here = pl.col("rank").eq_missing(rank) & pl.col("device_id").eq_missing(device)
    segments = (
        run.table("memory_segments").filter(here).sort("bytes", "address", descending=[True, False])
    )
    shown = segments.head(_SEGMENTS)
    blocks = (
        _list_blocks(run, rank, device)
        .filter(pl.col("segment_id").is_in(shown.get_column("segment_id").implode()))
        .join(shown.select("segment_id", begin="address"), on="segment_id")
        .sort("segment_id", "address")
    )
    sizes = shown.get_column("bytes").to_list()
    least = max(1, max(sizes, default=1) // _PARTS)
    drawn = _merge_small(blocks, least)
    stacks = StackTexts(run)
    place = {segment: row for row, segment in enumerate(shown.get_column("segment_id"))}
    return {
        "kind": "segments",
        "names": [
            make_printable(
                f"{row['segment_type'] or 'segment'} at {row['address']:#x}"
                + (f", pool {row['pool']}" if row["pool"] not in (None, _COMMON_POOL) else "")
            )
            for row in shown.iter_rows(named=True)
        ],
        "bytes": sizes,
        "left": segments.height - shown.height,
        "kinds": [*KINDS, "free", "small blocks"],
        "row": [place[segment] for segment in drawn.get_column("segment_id")],
        "at": (drawn.get_column("address") - drawn.get_column("begin")).to_list(),
        "size": drawn.get_column("bytes").to_list(),
        "of": drawn.get_column("of").to_list(),
        "count": drawn.get_column("count").to_list(),
        "stack": [stacks.number(stack) for stack in drawn.get_column("stack_id")],
        "stacks": stacks.texts,
    }


def _list_blocks(run: Run, rank: int, device: int | None) -> pl.DataFrame:
    """Blocks with `of`, the number of their kind."""
    here = pl.col("rank").eq_missing(rank) & pl.col("device_id").eq_missing(device)
    blocks = run.table("memory_blocks").filter(here)
    memory = follow_allocations(run).memories.filter(
        here, pl.col("memory_kind") == ("pinned" if device is None else "device")
    )
    live = (
        classify_blocks(run)
        .filter(pl.col("released").is_null())
        .join(memory.select("memory"), on="memory", how="semi")
        .select("address", pl.col("kind").cast(pl.String))
        .unique("address", keep="last")
    )
    numbers: dict[Any, int] = {kind: number for number, kind in enumerate(KINDS)}
    kind = pl.col("kind").fill_null("other").replace_strict(numbers, return_dtype=pl.Int64)
    is_free = pl.col("state") == "inactive"
    return blocks.join(live, on="address", how="left").select(
        "segment_id",
        "address",
        "bytes",
        "stack_id",
        of=pl.when(is_free).then(_FREE).otherwise(kind),
    )


def _merge_small(blocks: pl.DataFrame, least: int) -> pl.DataFrame:
    """Neighbours of under `least` bytes as one, until it has as many; `count` is their number."""
    small = pl.col("bytes") < least
    run_of_small = pl.struct("segment_id", small).rle_id()
    within = pl.when(small).then(pl.col("bytes").cum_sum().over(run_of_small) // least)
    one = pl.when(small).then(within).otherwise(pl.int_range(pl.len()))
    same = pl.col("of").n_unique() == 1
    return (
        blocks.with_columns(run=run_of_small, one=one)
        .group_by("run", "one", maintain_order=True)
        .agg(
            pl.col("segment_id", "begin", "address").first(),
            pl.col("bytes").sum(),
            of=pl.when(same).then(pl.col("of").first()).otherwise(_MIXED),
            stack_id=pl.when(pl.len() == 1).then(pl.col("stack_id").first()),
            count=pl.len().cast(pl.Int64),
        )
    )
