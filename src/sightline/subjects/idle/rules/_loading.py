"""What to do where the GPU waits for its next input: a DataLoader's batch, or a buffer."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows, take_rows
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_ns
from sightline.diagnosis.gaps import Claim
from sightline.timeline.world import read_world

LOAD_AHEAD = (
    "raise num_workers, set pin_memory=True and persistent_workers=True, prefetch to the GPU on a "
    "side stream, or move decoding out of __getitem__"
)
PREPARES_INPUT = "The GPU waits for its next input"
# Ours: a loss, an index or a flag is smaller, a batch of one image is not.
LEAST_INPUT_BYTES = 500_000


def find_input(run: Run, mine: Claim) -> str | None:
    """Says it where most of the gaps' time ends with large copies to the GPU."""
    ops = run.table("device_ops", ["device_op_id", "copy_kind", "bytes"])
    after = find_rows(ops.get_column("device_op_id"), mine.gaps.get_column("after_id"))
    ends = mine.gaps.hstack(take_rows(ops.select("copy_kind", "bytes"), after)).filter(
        (pl.col("copy_kind") == "HtoD") & (pl.col("bytes") >= LEAST_INPUT_BYTES)
    )
    ns = sum_column(ends, "duration_ns")
    if 2 * ns <= sum_column(mine.gaps, "duration_ns"):
        return None
    return (
        f"{format_ns(ns)} of it ends with copies to the GPU, {format_bytes(ends.item(0, 'bytes'))} "
        "the first: the host reads or produces their data meanwhile"
    )


def advise_input(run: Run, is_unnamed: bool, how: str) -> str:
    """What to do about it; `how` says what to record where nothing names the host's work."""
    ahead = (
        f"if a DataLoader produces it, {LOAD_AHEAD}"
        if read_world(run).framework == "pytorch"
        else "read or produce it ahead on another thread while the GPU works (two alternating "
        "buffers)"
    )
    return f"{ahead}; {how}" if is_unnamed else ahead
