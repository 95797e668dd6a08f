"""The main thread waits for other ranks.

Symptom
    Gloo's or MPI's collectives take much of each step.

Why it hurts
    The step ends when the slowest rank has come and the data have moved.

Evidence
    The main thread's time in collectives, and in no operator while another thread of its process
    communicates. Whether it is the transfer or a rank that comes late, the recordings of all ranks
    together tell (`sightline ranks`). The gain is a bound: all of that time.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: exposed communication).

Fix
    Let DistributedDataParallel overlap buckets with the backward pass; fewer, larger collectives;
    NCCL where there are GPUs.

False positives
    A barrier that a program needs, as at its end.

References
    PyTorch DistributedDataParallel notes: gradients are reduced in buckets during backward.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.finding import NOTABLE_PCT, Advice
from sightline.rules.host._shared import list_names, report_share, take_part
from sightline.timeline.host_parts import COMMUNICATE, has_only_host
from sightline.units import format_pct

RULE = Rule("host-communication", "Waiting for other ranks")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run):
        return
    share = take_part(run, COMMUNICATE)
    if share.pct < NOTABLE_PCT:
        return
    ranks = share.segments.get_column("rank").n_unique()
    yield report_share(
        RULE,
        share,
        f"For {format_pct(share.pct)} of their time main threads wait in collectives.",
        list_names(share.segments.filter(pl.col("part") == COMMUNICATE)),
        Advice(
            fix="see who comes late first:  sightline ranks RANK0 RANK1 ...  then overlap the "
            "collectives with the backward pass (DistributedDataParallel's buckets)",
            verify="sightline stats host_breakdown AFTER: window_pct of communication",
            sources=("TraceLens: exposed communication above 5 %",),
        ),
        confidence="high" if ranks > 1 else "medium",
    )
