"""What the rules about memory share: a finding in bytes, and the device that it is about."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_pct, format_several
from sightline.subjects.memory.allocations import (
    find_peaks_without,
    follow_allocations,
    select_memory,
)

# PyTorch's name for it since 2.9, which older ones do not know: PYTORCH_CUDA_ALLOC_CONF
# (docs.pytorch.org, "CUDA semantics", "Optimizing memory usage").
EXPANDABLE = (
    "PYTORCH_ALLOC_CONF=expandable_segments:True (before PyTorch 2.9: PYTORCH_CUDA_ALLOC_CONF)"
)
SNAPSHOT = "torch.cuda.memory._record_memory_history() and _dump_snapshot(PATH)"


# Beside a timeline, what takes memory is a problem where memory is short: below half of a device
# twice as large a batch would fit (ours). A recording of memory alone was made to ask about it.
_SHORT_SHARE = 0.5


def find_device_peaks(run: Run) -> pl.DataFrame:
    """The peaks of devices' memory, the largest first; no rows where none was recorded.

    With `has_room`: the run has a timeline, and its device far more memory than the peak.
    """
    if not run.rows("memory_events"):
        return pl.DataFrame()
    return (
        run.ask("memory_peak")
        .filter(
            pl.col("memory_kind").fill_null("device") == "device", pl.col("allocated_bytes") > 0
        )
        .drop_nulls("device_id")
        .sort("allocated_bytes", "rank", "device_id", descending=[True, False, False])
        .join(
            run.table("devices", ["rank", "device_id", "memory_bytes"]).unique(
                ["rank", "device_id"], keep="first", maintain_order=True
            ),
            on=["rank", "device_id"],
            how="left",
            maintain_order="left",
        )
        .with_columns(
            has_room=pl.lit(run.rows("device_ops") > 0)
            & (
                pl.max_horizontal("allocated_bytes", "most_reserved_bytes")
                < _SHORT_SHARE * pl.col("memory_bytes")
            ).fill_null(value=False)
        )
    )


def grade_by_room(peak: dict[str, Any]) -> str | None:
    """A remark where memory is not short; None: by the share that could be freed."""
    return "info" if peak["has_room"] else None


def select_device(frame: pl.DataFrame, row: dict[str, Any]) -> pl.DataFrame:
    """The rows of the same rank and device."""
    return frame.filter(
        pl.col("rank") == row["rank"], pl.col("device_id").eq_missing(row["device_id"])
    )


def find_peak_without(run: Run, peak: dict[str, Any], blocks: pl.DataFrame, gone: pl.Expr) -> int:
    """The highest sum of the peak's memory when the blocks for which `gone` holds are never made.

    `blocks` are those of `classify_blocks`, of all memories, with what `gone` asks of them.
    """
    mine = select_memory(follow_allocations(run), blocks, peak)
    return find_peak_without_blocks(run, peak, mine.filter(gone))


def find_peak_without_blocks(run: Run, peak: dict[str, Any], gone: pl.DataFrame) -> int:
    """The highest sum of the peak's memory without its blocks (allocated, released, bytes)."""
    found = follow_allocations(run)
    grouped = gone.select("allocated", "released", "bytes", group=pl.lit(0, pl.Int64))
    sums = select_memory(found, found.events, peak).select("event", "allocated_bytes")
    (after,) = find_peaks_without(sums, grouped, 1)
    return after


def locate_device(device: dict[str, Any]) -> dict[str, Any]:
    """Where a finding about this device is."""
    return {"ranks": [device["rank"]], "device_id": device["device_id"]}


def list_places(groups: pl.DataFrame, most: int = 3) -> list[str]:
    """The largest places of blocks, as lines of evidence; `groups` as `peak_blocks` has them."""
    largest = (
        groups.group_by("place")
        .agg(pl.col("bytes", "blocks").sum())
        .sort("bytes", "place", descending=[True, False])
        .head(most)
    )
    return [
        f"{format_bytes(size)} in {format_several(blocks, 'block')}: {place or 'no stack recorded'}"
        for place, size, blocks in largest.rows()
    ]


def name_device(row: dict[str, Any]) -> str:
    """A device in a sentence."""
    return f"GPU {row['device_id']}"


def write_share(part: int, whole: int) -> str:
    """A share of bytes."""
    return format_pct(100 * part / max(whole, 1))
