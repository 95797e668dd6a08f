"""The window holds the first iteration, which is not like the others.

Symptom
    The first marked step is much longer than the ones after it, and the device idles in it.

Why it hurts
    It hurts the measurement, not the program: lazy initialization, autotuning, compilation and
    cold caches happen once, but shares over the whole window count them as if each step had them.

Evidence
    Late launches of which most lie in the first of three or more marked steps. The gain is what
    leaving them out changes in this window, by a replay without these pauses.

Threshold
    Over 5 % of the window, and more than half of all late-launch time of the rank (ours: below
    that, the later steps have the same problem, and host-late speaks).

Fix
    None in the program. Look at --window steady, and record after warm-up:
    torch.profiler.schedule(wait=1, warmup=1, active=3).

False positives
    A program that runs for one step only, such as a cold start that matters.

References
    PyTorch profiler, torch.profiler.schedule (warm-up steps); HolisticTraceAnalysis drops steps
    at the edges for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.build import Advice, Evidence, Loss, make_finding
from sightline.diagnosis.gaps import claim_gaps
from sightline.replay.replay import shorten_thinking
from sightline.timeline import causes
from sightline.timeline.host_ranges import measure_long_thinking
from sightline.timeline.idle import list_system_waits

RULE = Rule(
    "first-iteration-included",
    "First iteration inside the window",
    causes=(causes.FIRST_STEP,),
    over_time=True,
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    mine = claim_gaps(run, RULE)
    if mine is None:
        return

    waits = list_system_waits(run)

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        return shorten_thinking(nodes, measure_long_thinking(run, nodes, mine.gaps, waits))

    yield make_finding(
        run,
        RULE,
        f"{format_pct(mine.pct)} of the window is idle time of the first step alone: shares over "
        "this window do not represent a typical step.",
        Loss(cost_ns=mine.cost_ns, bound_ns=mine.worst_ns, change=without),
        Evidence(mine.evidence, rows=mine.rows, where=mine.where("host_late"), calls=mine.calls),
        Advice(
            fix="ask about the later steps:  --window steady;  record after warm-up",
            verify="sightline report AFTER --window steady",
            cause="initialization, autotuning or compilation on first use",
            sources=("PyTorch profiler: schedule(wait, warmup, active)",),
        ),
        confidence="medium",
    )
