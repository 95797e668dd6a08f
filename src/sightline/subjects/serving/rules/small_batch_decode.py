"""Few requests decode together while others wait to be admitted.

Symptom
    Steps of decode are about as long for few requests as for many, and throughput is low.

Why it hurts
    Each step of decode reads all weights once, for however many requests: half the batch takes
    twice the steps.

Evidence
    Requests in each step of decode against those that the client had sent and not got back. The
    gain is a replay of these requests through a model of the scheduler without a limit of requests,
    with what the recorded steps cost. Without the client's log it is not known whether anybody
    waited: then it is a remark where the batch is small.

Threshold
    5 % of the window (TraceLens agent, 2026-08). Without the client's log: a median of 8 requests
    or fewer, a thirtieth of what an H100 needs to be bound by computing (989 TFLOP/s over
    3.35 TB/s in bf16: 295 tokens a step).

Fix
    Let more requests run together.

False positives
    The KV cache has no room for more: its usage says so (kv-cache-preemption).

References
    Pope et al., Efficiently Scaling Transformer Inference (2022).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_several
from sightline.subjects.serving.findings import list_steps, report_loss
from sightline.subjects.serving.load import find_worst
from sightline.subjects.serving.planning.room import measure_room
from sightline.timeline.engine_gaps import are_apart, list_request_spans
from sightline.timeline.engine_steps import DECODE

RULE = Rule("small-batch-decode", "Few requests decode together")

SMALL = 8
NOTABLE_SHARE = 0.3  # of the steps' time, as of what bounds a step (XProf)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if find_worst(run, "preemptions", "total"):
        return  # the KV cache keeps batches small: kv-cache-preemption says so
    steps = list_steps(run)
    if steps is None or are_apart(steps):  # who waits is at the server that prefills
        return
    decodes = steps.filter(pl.col("phase") == DECODE, pl.col("decode_requests") > 0)
    if decodes.is_empty():
        return
    spans = list_request_spans(run)
    there = _count_there(decodes, spans) if spans.height else pl.lit(None, pl.Int64)
    known = decodes.with_columns(there=there)
    middle = int(known["decode_requests"].median() or 0)  # type: ignore[arg-type]
    spent = int(known["duration_ns"].sum()) / max(int(steps["duration_ns"].sum()), 1)
    if not spans.height and (middle > SMALL or spent < NOTABLE_SHARE):
        return
    lines = [
        f"{format_several(known.height, 'step')} of decode, the median "
        f"{format_ns(int(known['duration_ns'].median() or 0))} long"  # type: ignore[arg-type]
    ]
    if spans.height:
        waited = int(known["there"].median() or 0)  # type: ignore[arg-type]
        lines.append(f"the client had {waited} requests on their way in the median step")
        losses = _price_merging(run, known)
    else:
        lines.append("whether others waited, the client's log or the server's metrics tell")
        losses = known.with_columns(cost_ns=pl.col("duration_ns"), gain_ns=pl.lit(0))
    yield from report_loss(
        run,
        RULE,
        losses,
        f"The median step of decode continues {format_several(middle, 'request')}.",
        lines,
        verify="sightline stats engine_steps AFTER: decode_requests, duration_ns",
        method="replay of the client's requests, each admitted as it comes"
        if spans.height
        else None,
        confidence="medium",
    )


def _count_there(steps: pl.DataFrame, spans: pl.DataFrame) -> pl.Series:
    """How many of the client's requests were on their way at the middle of each step."""
    middle = (steps.get_column("start_ns") + steps.get_column("end_ns")) // 2
    begun = spans.get_column("start_ns").sort().search_sorted(middle, side="right")
    ended = spans.get_column("end_ns").sort().search_sorted(middle, side="right")
    return begun.cast(pl.Int64) - ended.cast(pl.Int64)


def _price_merging(run: Run, decodes: pl.DataFrame) -> pl.DataFrame:
    """What the same requests take less if all are admitted as they come, over the steps that wait.

    In a step in which nobody waits nothing is gained.
    """
    cycle = pl.col("duration_ns") + pl.col("scheduler_ns") + pl.col("in_step_ns")
    waits = pl.col("there") > pl.col("decode_requests")
    held = pl.when(waits).then(cycle).otherwise(0)
    whole = held.sum().over("rank")
    most = pl.min_horizontal(pl.lit(measure_room(run) or 0), whole)
    share = (held / whole.clip(lower_bound=1) * most).round().cast(pl.Int64)
    return decodes.with_columns(cost_ns=share, gain_ns=share)
