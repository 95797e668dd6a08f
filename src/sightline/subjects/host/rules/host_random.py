"""The CPU draws random numbers for much of the time: the GPU could, or once would do.

Symptom
    `normal_`, `uniform_`, `random_` and the like with large tensors in each step, on the CPU.

Why it hurts
    A CPU draws some hundred million numbers a second, a GPU a thousand times as many; and what is
    drawn on the CPU has to be copied to the GPU as well.

Evidence
    The own time of operators that draw numbers, on the main thread, where no GPU was recorded: of
    a program that uses one (its runtime's calls are there), or of none. The gain is their time: an
    upper bound, since the numbers are drawn somewhere, or once.

Threshold
    Over 10 % of the main thread's time (ours, as for copies on the CPU).

Fix
    torch.randn(..., device="cuda"): made where it is used. Data that stands for real input is made
    once, before the loop.

False positives
    Numbers that have to be the CPU's own, for the same results everywhere.

References
    PyTorch Performance Tuning Guide, "Create tensors directly on the target device".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.build import Advice
from sightline.subjects.host.rules._shared import list_names, report_share, take_share
from sightline.timeline.host_parts import RANDOM, has_only_host, list_segments, uses_device

RULE = Rule("host-random", "Random numbers drawn on the CPU", explains_lateness=True)

RANDOM_PCT = 10.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run):
        return
    segments = list_segments(run).filter(pl.col("part") == RANDOM)
    share = take_share(run, segments)
    if share.pct < RANDOM_PCT:
        return
    on_gpu = uses_device(run)
    yield report_share(
        RULE,
        share,
        f"{share.there.thread} spends {share.there.share} of its time drawing random numbers on "
        "the CPU" + (", for a program that uses a GPU." if on_gpu else "."),
        list_names(share.segments),
        Advice(
            fix='make them on the GPU: torch.randn(..., device="cuda"), which saves the copy, too; '
            "or once, before the loop"
            if on_gpu
            else "make the data once, before the loop, or on a GPU",
            verify="sightline stats ops AFTER: own time of these operators",
            sources=("PyTorch Performance Tuning Guide: create tensors on the target device",),
        ),
        confidence="medium",
    )
