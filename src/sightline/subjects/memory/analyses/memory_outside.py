"""Device memory that is in use, and that the recorded allocator does not hold.

What the driver says is used, less what the allocator had taken from it by then: contexts, code,
NCCL's buffers, workspaces that libraries allocate for themselves, and other processes. Samples from
before the allocator's first event are left out.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import take_rows
from sightline.core.model.columns import RANK, number, size, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError

# NVML through sightline and nvidia-smi (memory.used), DCGM_FI_DEV_FB_USED (field 252).
USED = r"(?i)^memory[ ._]used|^(?:DCGM_FI_DEV_)?FB_?USED"
_UNITS = {"bytes": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_BY = ["rank", "device_id"]

ANALYSIS = Analysis(
    "memory_outside",
    "How much device memory is used besides what the allocator holds?",
    (
        RANK,
        number("device_id", "device", required=True),
        number("samples", "samples of the memory in use"),
        time("time_ns", "the sample with most of it"),
        size("used_bytes", "in use then"),
        size("reserved_bytes", "of it, held by the allocator"),
        size("outside_bytes", "of it, not held by the allocator"),
        size("least_bytes", "the least of it at any sample"),
    ),
    needs=("memory_events", "counters"),
    notes=("Driver and allocator are asked at different moments: a few MiB make no difference.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per device."""
    scale = pl.col("unit").replace_strict(_UNITS, default=None, return_dtype=pl.Int64)
    used = (
        run.scan("counters")
        .filter(pl.col("metric").str.contains(USED), pl.col("device_id").is_not_null())
        .select(*_BY, "time_ns", used_bytes=(pl.col("value") * scale).round().cast(pl.Int64))
        .drop_nulls()
        .collect()
    )
    if used.is_empty():
        raise MissingDataError(
            "'memory_outside' cannot be answered",
            why="the recording has no samples of the memory in use",
            hint="sightline run -- COMMAND records them on NVIDIA GPUs",
        )
    held = (
        run.scan("memory_events")
        .filter(pl.col("reserved_bytes").is_not_null(), pl.col("device_id").is_not_null())
        .select(*_BY, "time_ns", "reserved_bytes")
        .collect()
    )
    at = find_latest(used, "time_ns", held, "time_ns", _BY)
    found = used.hstack(take_rows(held.select("reserved_bytes"), at)).drop_nulls("reserved_bytes")
    outside = pl.col("used_bytes") - pl.col("reserved_bytes")
    return (
        found.with_columns(outside_bytes=outside)
        .sort("outside_bytes", "time_ns", descending=[True, False])
        .group_by(_BY)
        .agg(
            pl.len().cast(pl.Int64).alias("samples"),
            pl.col("time_ns", "used_bytes", "reserved_bytes", "outside_bytes").first(),
            least_bytes=pl.col("outside_bytes").min(),
        )
        .sort(_BY)
    )
