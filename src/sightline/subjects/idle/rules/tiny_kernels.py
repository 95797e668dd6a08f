"""Kernels so short that the gaps between them count.

Symptom
    Queued kernels of a few µs, with a gap of about a µs between each two.

Why it hurts
    Starting a kernel costs the device itself about a µs, graph or not; at 3 µs a kernel that is
    a fifth of the time.

Evidence
    Gaps between nodes of one graph, or under 5 µs between queued kernels, on a device whose
    median kernel is short. The gain is a replay without these gaps: what fusion gives even if the
    work itself gets no faster.

Threshold
    The gaps are over 5 % of the window, and the median kernel is under 10 µs (TraceLens agent,
    2026-08: short kernels).

Fix
    Fuse: torch.compile, foreach and fused optimizers, larger batches, a persistent kernel.

False positives
    None known: the gaps are real; whether fusing is worth the work is another question.

References
    NVIDIA, "Getting Started with CUDA Graphs" (2019): 2.9 µs kernels, 3.4 µs each in a graph.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, Loss, make_finding
from sightline.diagnosis.gaps import claim_gaps
from sightline.replay.replay import select_ops
from sightline.timeline import causes

RULE = Rule(
    "tiny-kernels",
    "Many tiny kernels",
    causes=(causes.SHORT_KERNELS,),
    general=4,
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    mine = claim_gaps(run, RULE)
    if mine is None:
        return
    after = mine.gaps.get_column("after_id")

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        ends_gap = select_ops(nodes, after)
        return nodes.with_columns(
            pl.when(ends_gap).then(0).otherwise(pl.col(lag)).alias(lag)
            for lag in ("prev_lag_ns", "residual_ns")
        )

    yield make_finding(
        run,
        RULE,
        f"{format_pct(mine.pct)} of the window is gaps between queued kernels that run hardly "
        "longer than the gaps last.",
        Loss(cost_ns=mine.cost_ns, bound_ns=mine.worst_ns, change=without),
        Evidence(
            [
                *mine.evidence[:1],
                format_several(sum_column(run.ask("kernels"), "instances"), "kernel"),
            ],
            rows=mine.rows,
            where=mine.where("micro_gap"),
            calls=mine.calls,
        ),
        Advice(
            fix=choose_fix(
                run,
                "merge kernels that follow each other, or give each more work",
                training="fuse them: torch.compile, foreach and fused optimizers, or larger "
                "batches",
                pytorch="fuse them: torch.compile, or larger batches",
                serving="more requests at once, so that each kernel has more to do",
                jax="put them under one jax.jit, so that XLA fuses them, or larger batches",
                openmp="merge loops into one target region (collapse), or larger problems per rank",
            ),
            verify="sightline stats idle AFTER: total_ns of in_graph and micro_gap",
            cause="the work is split into kernels of a few µs",
            sources=("TraceLens agent: short kernels below 10 µs",),
        ),
    )
