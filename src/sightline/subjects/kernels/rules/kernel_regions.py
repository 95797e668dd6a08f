"""Within a kernel: which of its marked regions its warps spend their cycles in.

Symptom
    A trace of a kernel's own regions by warp (Triton's intra-kernel profiler, a tracer of one's
    own), in clock cycles or in time.

Why it hurts
    What a block does before and after its main loop (addresses, first loads, the epilogue's stores)
    computes nothing of the result, and is paid for by each block.

Evidence
    The cycles, or the time, of all warps by region, without those of the regions within it.

Threshold
    Two regions at least (of one there is nothing to compare).

Fix
    Let the smaller regions overlap the largest: a persistent kernel whose epilogue runs beside the
    next tile's loop, asynchronous stores, or more of the loop for each block.

False positives
    Regions that run at once on different warps (a producer and its consumers).

References
    Triton, Proton documentation: intra-kernel profiling.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import MAX_ROWS, Advice, Evidence, build_finding

RULE = Rule("kernel-regions", "Where the kernel's cycles go")

_KEY = ["rank", "recording_id"]
_CYCLES, _TIME = "cycles", "warp_time_ns"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding."""
    if not run.rows("stack_weights") or run.rows("device_ops"):
        return
    regions, metric = _sum_regions(run)
    whole = sum_column(regions, "value")
    if regions.height < 2 or not whole:
        return
    is_time = metric == _TIME
    of_all = "warps' time" if is_time else format_several(whole, "cycle")
    name, most = regions.row(0)
    others = 100 * (1 - most / whole)
    yield build_finding(
        RULE,
        f"{format_pct(100 * most / whole)} of the {of_all} in marked regions "
        f"{'is' if is_time else 'are'} in {name}; the others take {format_pct(others)}.",
        Evidence(
            [
                f"{format_pct(100 * value / whole)} {region}, "
                f"{format_ns(value) if is_time else format_several(value, 'cycle')}"
                for region, value in regions.head(MAX_ROWS).rows()
            ],
            rows=regions.head(MAX_ROWS).to_dicts(),
        ),
        Advice(
            fix=f"let the other regions overlap {name}: a persistent kernel, asynchronous loads "
            "and stores, or more of it for each block",
            verify="sightline report AFTER: regions by their share",
            sources=("Triton, Proton documentation: intra-kernel profiling",),
        ),
        severity="info",
        confidence="medium",
        states_limit=True,
    )


def _sum_regions(run: Run) -> tuple[pl.DataFrame, str]:
    """What regions take, the largest first: `function`, `value`; and in which metric."""
    every = run.table("stack_weights").with_columns(pl.col("metric").cast(pl.String))
    metric = _CYCLES if (every.get_column("metric") == _CYCLES).any() else _TIME
    weights = every.filter(pl.col("metric") == metric)
    frames = run.table("frames").filter(pl.col("layer").cast(pl.String) == "phase")
    stacks = run.table("stacks").select(*_KEY, "stack_id", "frame_id")
    regions = (
        weights.join(stacks, on=[*_KEY, "stack_id"])
        .join(frames.select(*_KEY, "frame_id", "function"), on=[*_KEY, "frame_id"])
        .group_by(pl.col("function").cast(pl.String))
        .agg(pl.col("value").sum())
        .sort("value", "function", descending=[True, False])
    )
    return regions, metric
