"""The memory peaks of two runs against each other: what grew, and what became smaller, in bytes.

Each device's peak is taken apart by what the blocks hold and by who allocated them
(`sightline stats peak_blocks`), on both sides; the differences of the parts add up to the
difference of the peaks, to the byte. A place is a function and its line: after an edit that moves
lines it is another one.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run

SCHEMA = "sightline-compare-memory/1"
_MEMORY = ["rank", "device_id", "memory_kind"]


def has_memory_only(run: Run) -> bool:
    """Whether a run holds an allocator's events, and no timeline."""
    timeline = run.rows("device_ops") or run.rows("host_ops")
    return bool(run.rows("memory_events")) and not timeline


def compare_peaks(before: Run, after: Run) -> dict[str, Any]:
    """Rows of `peaks`, of `kinds` and of `places`, the largest change first.

    Each has before_bytes, after_bytes and change_bytes; a part that one side does not have is 0
    bytes there. A memory that one side does not have has null as its peak there.
    """
    sides = (before, after)
    return {
        "schema": SCHEMA,
        "peaks": _pair(
            [_rename(run.ask("memory_peak"), "allocated_bytes") for run in sides], _MEMORY
        ),
        "kinds": _pair([_sum_parts(run, "kind") for run in sides], [*_MEMORY, "kind"], 0),
        "places": _pair(
            [_sum_parts(run, "kind", "place") for run in sides], [*_MEMORY, "kind", "place"], 0
        ),
    }


def _rename(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    return frame.select(*_MEMORY, bytes=column)


def _sum_parts(run: Run, *by: str) -> pl.DataFrame:
    return run.ask("peak_blocks").group_by(*_MEMORY, *by).agg(pl.col("bytes").sum())


def _pair(
    sides: list[pl.DataFrame], by: list[str], absent: int | None = None
) -> list[dict[str, Any]]:
    before, after = (
        side.rename({"bytes": f"{name}_bytes"})
        for side, name in zip(sides, ("before", "after"), strict=True)
    )
    paired = before.join(after, on=by, how="full", coalesce=True, nulls_equal=True)
    if absent is not None:
        paired = paired.with_columns(pl.col("before_bytes", "after_bytes").fill_null(absent))
    change = pl.col("after_bytes") - pl.col("before_bytes")
    return (
        paired.with_columns(change_bytes=change)
        .sort(pl.col("change_bytes").abs(), *by, descending=[True] + [False] * len(by))
        .to_dicts()
    )
