"""Fills that block the host: a rule of nsys analyze."""

from __future__ import annotations

import polars as pl

from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._expert import FILLS, list_called, list_longest
from sightline.subjects.nsys.analyses._shared import ROWS

ANALYSIS = Analysis(
    "cuda_memset_sync",
    "Which memsets blocked the host? (as nsys analyze)",
    FILLS,
    needs=("device_ops", "host_ops"),
    params=(ROWS,),
    notes=("Only memsets of pinned and managed memory block.",),
)


def run(run: Run, *, rows: int = 50) -> pl.DataFrame:
    """One row per operation, longest first."""
    ops = list_called(run, "memset")
    name = pl.col("api")
    found = ops.filter(
        name.str.contains(r"^cu(?:da)?Memset")
        & ~name.str.contains("Async")
        & pl.col("dst_kind").is_in(["pinned", "managed"])
    )
    return list_longest(found, FILLS, rows)
