"""Kernels take longer while communication runs beside them.

Symptom
    The same kernel, with the same grid and block, is slower under a collective than alone.

Why it hurts
    Communication kernels take SMs, memory bandwidth and cache from compute: part of what overlap
    hides comes back as slower kernels.

Evidence
    Median duration by name, grid and block, beside communication for at least half of the kernel
    and alone (five instances each at least). The gain is a replay in which those beside
    communication are faster by the ratio of the two medians.

Threshold
    The excess is over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Fewer channels for communication (NCCL_MAX_NCHANNELS, NCCL_MAX_CTAS), copy engines or
    in-network reduction, overlap with kernels that are not limited by memory.

False positives
    A clock that falls while both run looks the same.

References
    Trace analysis by TraceLens (overlap lists); NCCL documentation, NCCL_MAX_CTAS.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.kernels.rules._shared import find_shorter_kernels, list_computing
from sightline.timeline.communication import overlaps_communication

RULE = Rule("overlap-slows-compute", "Compute slowed by overlapping communication")
_SHAPE = ["name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]
_LEAST = 5


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or not sum_column(run.ask("overlap"), "comm_overlap_ns"):
        return
    kernels = list_computing(run)
    kernels = kernels.with_columns(beside=overlaps_communication(kernels, run))
    if not kernels.get_column("beside").any():
        return
    alone = pl.col("length").filter(~pl.col("beside"))
    both = kernels.with_columns(
        alone=alone.median().over(_SHAPE),
        n_alone=alone.len().over(_SHAPE),
        together=pl.col("length").filter("beside").median().over(_SHAPE),
    ).filter(
        "beside",
        pl.col("n_alone") >= _LEAST,
        pl.len().over(*_SHAPE, "beside") >= _LEAST,
        pl.col("together") > pl.col("alone"),
    )
    found = find_shorter_kernels(
        run,
        RULE,
        both.with_columns(factor=pl.col("alone") / pl.col("together")),
        "{share} of the window is lost because kernels run slower while communication overlaps "
        "them.",
        cause="communication takes SMs and memory bandwidth from compute",
        fix="give communication fewer channels (NCCL_MAX_CTAS), or overlap it with kernels that "
        "are not limited by memory",
        sources=("NCCL documentation: NCCL_MAX_CTAS",),
        confidence="medium",
    )
    if found:
        yield found
