"""Each step does a little more than the one before: something is kept that should not be.

Symptom
    The program starts fast and slows down; its memory grows with it.

Why it hurts
    A loss, a hidden state or a list of results that keeps its autograd graph makes the backward
    pass walk all steps before. The step's time then grows without bound.

Evidence
    The operators of each recorded step: their number grows from step to step. The gain is what
    steps take beyond one that has nothing to carry: that is where the line through their lengths
    begins, at the first marked step.

Threshold
    A rank correlation of 0.9 or more between a step's place and its operators over six steps or
    more, and a growth of 10 % in all (ours: a healthy loop's steps differ by single operators).

Fix
    detach() what is carried to the next step, .item() what is only summed up or printed; no
    retain_graph=True.

False positives
    Sequences that are sorted by length.

References
    PyTorch FAQ, "My model reports cuda runtime error(2): out of memory" (don't accumulate history
    across your training loop).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_several
from sightline.diagnosis.build import Advice
from sightline.subjects.host.rules._asleep import Blocked, report_blocked
from sightline.subjects.host.rules._there import find_there
from sightline.timeline.host_parts import count_step_operators, has_only_host, has_operators

RULE = Rule("host-growing", "Steps that grow", explains_lateness=True, over_time=True)

LEAST_STEPS = 6
LEAST_CORRELATION = 0.9
LEAST_GROWTH = 1.1


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run) or not has_operators(run):
        return
    steps = count_step_operators(run)
    place = pl.int_range(pl.len())
    each = (
        steps.group_by("rank", maintain_order=True)
        .agg(
            steps=pl.len(),
            order=pl.corr(place, "operators", method="spearman"),
            first=pl.col("operators").first(),
            last=pl.col("operators").last(),
            first_ns=pl.col("ns").first(),
            last_ns=pl.col("ns").last(),
            ns=pl.col("ns").sum(),
            mean_ns=pl.col("ns").mean(),
            mean_before=pl.col("before").mean(),
            # The line of least squares through the steps' lengths.
            each_ns=pl.cov("before", "ns") / pl.col("before").var(),
        )
        .with_columns(
            healthy_ns=(pl.col("mean_ns") - pl.col("each_ns") * pl.col("mean_before")).clip(0)
        )
        .with_columns(
            lost_ns=(pl.col("ns") - pl.col("steps") * pl.col("healthy_ns")).cast(pl.Int64)
        )
        .filter(
            pl.col("steps") >= LEAST_STEPS,
            pl.col("order") >= LEAST_CORRELATION,
            pl.col("last") >= LEAST_GROWTH * pl.col("first"),
            pl.col("lost_ns") > 0,
        )
    )
    if each.is_empty():
        return
    row = each.sort("lost_ns", descending=True).row(0, named=True)
    cost, whole = sum_column(each, "lost_ns"), max(sum_column(steps, "ns"), 1)
    ranks = each.select("rank", ns="lost_ns")
    lost = Blocked(cost, row["lost_ns"], 100 * cost / whole, find_there(run, ranks), ranks)
    yield report_blocked(
        RULE,
        lost,
        f"Steps grow from {format_count(row['first'])} to "
        f"{format_several(row['last'], 'operator')}: each keeps something of those before, such as "
        "an autograd graph.",
        [f"from {format_ns(row['first_ns'])} to {format_ns(row['last_ns'])} a step, over "
         f"{row['steps']} steps"],
        Advice(
            fix="detach() tensors carried from step to step, use .item() for values that are "
"only summed, and avoid retain_graph=True",
            verify="sightline stats steps AFTER: all as long as the first",
        ),
        confidence="medium",
        method="bound from the recorded steps' own lengths",
    )  # fmt: skip
