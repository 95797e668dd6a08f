"""Copies that block the host: a rule of nsys analyze."""

from __future__ import annotations

import polars as pl

from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._expert import COPIES, list_called, list_longest
from sightline.subjects.nsys.analyses._shared import ROWS

# Copies to the device up to this size return before they are done: the rule's own threshold,
# 64000 in its script where its text says 64 KB (nsys 2023.4).
SMALL_BYTES = 64_000

ANALYSIS = Analysis(
    "cuda_memcpy_sync",
    "Which copies blocked the host? (as nsys analyze)",
    COPIES,
    needs=("device_ops", "host_ops"),
    params=(ROWS,),
    notes=(
        "Copies to the device of 64 kB or less are left out: the driver takes them at once.",
        "Copies within one device are left out: they do not block the host.",
    ),
)


def run(run: Run, *, rows: int = 50) -> pl.DataFrame:
    """One row per operation, longest first."""
    ops = list_called(run, "memcpy")
    name = pl.col("api")
    small = (pl.col("copy_kind") == "HtoD") & (pl.col("bytes") <= SMALL_BYTES)
    same_device = pl.col("copy_kind") == "DtoD"
    found = ops.filter(
        name.str.contains(r"^cu(?:da)?Memcpy")
        & ~name.str.contains("Async")
        & ~small.fill_null(value=False)
        & ~same_device.fill_null(value=False)
    )
    return list_longest(found, COPIES, rows)
