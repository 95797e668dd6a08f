"""What workloads need, from what was measured: a watch's history, or any recording with counters.

Each GPU (or MIG instance) of the recording is one workload: the most memory that was in use, and
the 95th percentile of SM active, so that rare peaks buy no larger instance.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.mig.wants import Want

_PERCENTILE = 0.95
# What the driver holds on an idle GPU is no workload (H100: 0.6 GB reserved).
_LEAST_BYTES = 1_000_000_000


def measure_wants(run: Run) -> list[Want]:
    """A want for each GPU of the run that had work. Raises MissingDataError without its memory."""
    counters = run.table("counters")
    if counters.is_empty() or "metric" not in counters.columns:
        raise MissingDataError(
            "cannot tell what the workloads need",
            why="no counter was recorded",
            hint="Record them while the workloads run:  sightline watch -o gpu-history",
        )
    source = pl.col("source").fill_null("") if "source" in counters.columns else pl.lit("")
    rows = (
        counters.filter(pl.col("metric").is_in(["memory used", "SM active"]))
        .with_columns(of=source)
        # A process has no SM active of its own: its GPU has, or its instance.
        .filter(~pl.col("of").str.starts_with("process"), pl.col("device_id").is_not_null())
        .group_by("rank", "device_id", "of", "metric")
        .agg(
            most=pl.col("value").max(),
            often=pl.col("value").quantile(_PERCENTILE, "higher"),
        )
        .sort("rank", "device_id", "of")
    )
    return _merge(list(_list_wants(rows)))


def _list_wants(rows: pl.DataFrame) -> Sequence[Want]:
    found = []
    for (_, device, of), part in rows.group_by("rank", "device_id", "of", maintain_order=True):
        values = {row["metric"]: row for row in part.iter_rows(named=True)}
        memory = values.get("memory used")
        if memory is None or memory["most"] < _LEAST_BYTES:
            continue
        active = values.get("SM active")
        share = min(1.0, active["often"] / 100) if active is not None else 0.0
        name = f"GPU {device}" + (f", {of}" if of else "")
        note = "" if active is not None else "SM active was not recorded: planned by memory alone"
        found.append(Want(name, 1, None, int(memory["most"]), round(share, 3), note=note))
    if not found:
        raise MissingDataError(
            "cannot tell what the workloads need",
            why="no GPU of the recording has a gigabyte of memory in use",
            hint="Record them while the workloads run:  sightline watch -o gpu-history",
        )
    return found


def _merge(wants: Sequence[Want]) -> list[Want]:
    """Wants that need as much (to 0.05 GB and a per cent of the SMs) as one with a count."""
    merged: dict[tuple[int, float, str], Want] = {}
    for want in wants:
        key = (-(-want.memory_bytes // 50_000_000), round(want.sm_share, 2), want.note)
        before = merged.get(key)
        if before is None:
            merged[key] = want
            continue
        merged[key] = Want(
            before.name if " and " in before.name else f"{before.name} and others",
            before.count + 1,
            None,
            max(before.memory_bytes, want.memory_bytes),
            max(before.sm_share, want.sm_share),
            note=want.note,
        )
    return list(merged.values())
