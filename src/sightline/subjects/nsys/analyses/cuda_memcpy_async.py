"""Asynchronous copies that pageable memory makes synchronous: a rule of nsys analyze."""

from __future__ import annotations

import polars as pl

from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._expert import COPIES, list_called, list_longest
from sightline.subjects.nsys.analyses._shared import ROWS

ANALYSIS = Analysis(
    "cuda_memcpy_async",
    "Which asynchronous copies had to wait for pageable memory? (as nsys analyze)",
    COPIES,
    needs=("device_ops", "host_ops"),
    params=(ROWS,),
    notes=("Pinned memory lets them overlap other work.",),
)


def run(run: Run, *, rows: int = 50) -> pl.DataFrame:
    """One row per operation, longest first."""
    ops = list_called(run, "memcpy")
    pageable = (pl.col("src_kind") == "pageable") | (pl.col("dst_kind") == "pageable")
    found = ops.filter(pl.col("api").str.contains(r"^cu(?:da)?Memcpy.*Async") & pageable)
    return list_longest(found, COPIES, rows)
