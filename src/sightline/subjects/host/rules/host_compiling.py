"""Compilers run in the steps.

Symptom
    Some steps take a hundred times as long as others, with torch.compile inside.

Why it hurts
    Dynamo compiles anew whenever a guard fails: another shape, another Python value. A compilation
    takes from milliseconds to minutes.

Evidence
    The main thread's time in ranges of Dynamo and Inductor. The gain is a bound: all of it.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08), in two steps or more where steps are marked:
    once is warm-up.

Fix
    TORCH_LOGS=recompiles names the guard that failed. Mark what changes as dynamic
    (torch._dynamo.mark_dynamic, dynamic=True), or pad to few shapes.

False positives
    A recording of the warm-up of several shapes.

References
    PyTorch documentation, "Dealing with Recompilations".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.diagnosis.build import NOTABLE_PCT, Advice
from sightline.subjects.host.rules._shared import count_steps, list_names, report_share, take_part
from sightline.timeline.host_parts import COMPILE, has_only_host
from sightline.timeline.iterations import list_marked_steps

RULE = Rule("host-compiling", "Recompilation in steps", explains_lateness=True)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run):
        return
    share = take_part(run, COMPILE)
    if share.pct < NOTABLE_PCT:
        return
    steps = list_marked_steps(run).select("rank", "start_ns", "end_ns")
    began = share.segments.select("rank", at="start_ns").sort("at")
    hit = (
        began.join_asof(steps.sort("start_ns"), left_on="at", right_on="start_ns", by="rank",
                        check_sortedness=False)
        .filter(pl.col("at") < pl.col("end_ns"))
        .select("rank", "end_ns").n_unique()
    )  # fmt: skip
    if count_steps(run) and hit < 2:
        return
    where = f" in {format_several(hit, 'step')}" if hit else ""
    yield report_share(
        RULE,
        share,
        f"{share.there.thread} spends {share.there.share} of its time compiling{where}.",
        list_names(share.segments),
        Advice(
            fix="TORCH_LOGS=recompiles names the guard that failed; mark what changes as dynamic "
            "(torch.compile(dynamic=True)), or pad to few shapes",
            verify="sightline stats host_breakdown AFTER: window_pct of compiling",
            sources=("TraceLens: exposed loss above 5 %",),
        ),
    )
