"""Operators so small that calling them costs more than what they do.

Symptom
    Hundreds of operators of a few µs each in a step, with a little Python between each two.

Why it hurts
    Each operator costs the interpreter and the dispatcher some µs, whatever the size of its
    tensors: nothing is computed meanwhile.

Evidence
    The main thread's time in operators that only call others, in working operators under 10 µs, and
    in Python for less than 250 µs between two operators, outside of the optimizer (host-optimizer).
    The gain is a bound: all of that time; what small operators compute must still be computed.

Threshold
    Over 20 % of the window (ours: a training step of large convolutions on the CPU has 6 %).

Fix
    Larger batches; torch.compile; foreach or fused optimizers; one operator on a stacked tensor
    instead of a loop.

False positives
    None known; a profiler makes each operator slower by a µs or two: the true share is less.

References
    PyTorch Performance Tuning Guide, "Fuse operations"; PyTorch, "Recipe: benchmark", on overhead
    of a few µs for each operator.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.finding import Advice
from sightline.rules.host._shared import (
    SHORT_NS,
    count_steps,
    list_names,
    report_share,
    take_share,
)
from sightline.timeline.host_parts import (
    COMMUNICATE,
    COMPILE,
    DISPATCH,
    LOAD,
    OPTIMIZE,
    has_only_host,
    list_segments,
    list_short_python,
)
from sightline.units import format_count, format_ns, format_pct

RULE = Rule("host-dispatch", "Many small operators")

DISPATCH_PCT = 20.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run):
        return
    other_rules = [LOAD, COMMUNICATE, OPTIMIZE, COMPILE]
    segments = list_segments(run).filter(~pl.col("part").is_in(other_rules))
    working = segments.filter("works")
    each = working.group_by("host_op_id").agg(pl.col("own_ns").sum())
    small = each.filter(pl.col("own_ns") < SHORT_NS).get_column("host_op_id")
    is_small = pl.col("works") & pl.col("host_op_id").is_in(small.implode())
    is_calling = (pl.col("layer") == "op") & ~pl.col("works")
    lost = pl.concat(
        [segments.filter(is_small | is_calling | (pl.col("part") == DISPATCH)),
         list_short_python(run)]
    )  # fmt: skip
    share = take_share(run, lost)
    if share.pct < DISPATCH_PCT or small.len() < each.height / 2:
        return
    steps = count_steps(run)
    per = f", {format_count(small.len() // steps)} a step" if steps else ""
    median = each.get_column("own_ns").median()
    yield report_share(
        RULE,
        share,
        f"For {format_pct(share.pct)} of its time the main thread calls operators instead of "
        f"computing: {format_count(small.len())} of {format_count(each.height)} operators are "
        f"under {format_ns(SHORT_NS)}{per}.",
        [
            f"the median operator takes {format_ns(float(median or 0))}",  # type: ignore[arg-type]
            *list_names(working.filter(pl.col("host_op_id").is_in(small.implode()))),
        ],
        Advice(
            fix="torch.compile the step, take larger batches, or work on one stacked tensor "
            "instead of a loop over small ones",
            verify="sightline stats host_breakdown AFTER: window_pct of dispatch and Python",
            sources=("TraceLens: short below 10 µs",),
        ),
        confidence="medium",
    )
