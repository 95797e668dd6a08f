"""Graphs have room for more requests than there are, and compute the empty places.

Symptom
    A step of decode takes as long for 17 requests as for 32.

Why it hurts
    A graph is captured for some batch sizes, and a smaller batch is padded to the next one.

Evidence
    Requests and places of each step, where its annotation says both. How much a place costs is the
    slope of the steps' lengths over their places, where graphs of several sizes were replayed; with
    one size, their share of the step is the bound.

Threshold
    5 % of the window (TraceLens agent, 2026-08, of time that a problem takes).

Fix
    Capture graphs of sizes between these.

False positives
    A size in between may be slower, where a kernel's tiles are of the larger one.

References
    vLLM, CUDA Graphs (cudagraph_capture_sizes).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct, format_several
from sightline.subjects.serving.findings import list_steps, report_loss

RULE = Rule("padding-waste", "Graphs compute places without a request")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    steps = list_steps(run)
    if steps is None:
        return
    padded = steps.filter(pl.col("slots") > 0, pl.col("decode_requests").is_not_null())
    if padded.is_empty():
        return
    slope = _measure_slope(padded)
    empty = (pl.col("slots") - pl.col("decode_requests")).clip(0)
    share = pl.col("duration_ns") / pl.col("slots")
    each = share if slope is None else pl.min_horizontal(pl.lit(slope), share)
    losses = padded.with_columns(cost_ns=(empty * each).round().cast(pl.Int64)).with_columns(
        gain_ns="cost_ns"
    )
    places, used = int(padded["slots"].sum()), int(padded["decode_requests"].sum())
    yield from report_loss(
        run,
        RULE,
        losses,
        f"{format_pct(100 * (places - used) / places)} of the places in graphs hold no request.",
        [
            f"{format_several(padded.height, 'step')} with {format_several(used, 'request')} in "
            f"{format_several(places, 'place')}",
            "the sizes of the replayed graphs: "
            + ", ".join(str(n) for n in padded["slots"].unique().sort().head(12)),
        ],
        verify="sightline stats engine_steps AFTER: slots against decode_requests",
        method="steps of several sizes: what a place costs, for each empty one"
        if slope is not None
        else "bound: the empty places' share of these steps",
        confidence="medium" if slope is not None else "low",
    )


def _measure_slope(padded: pl.DataFrame) -> float | None:
    """What a place costs, ns: the line of least squares through each size's median step."""
    sizes = padded.group_by("slots").agg(ns=pl.col("duration_ns").median(), n=pl.len())
    if sizes.height < 2:
        return None
    x, y = pl.col("slots"), pl.col("ns")
    slope = sizes.select(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
    return max(float(slope.item()), 0.0)
