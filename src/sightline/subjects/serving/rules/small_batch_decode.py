"""Few requests decode together while others wait to be admitted.

Symptom
    Steps of decode are about as long for few requests as for many, and throughput is low.

Why it hurts
    Each step of decode reads all weights once, for however many requests: half the batch takes
    twice the steps.

Evidence
    Requests in each step of decode against those that the client had sent and not got back. The
    gain is a replay of these requests, each decoding from its arrival, with steps that grow with
    the batch as the recording's own do. Without the client's log it is not known whether anybody
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
from heapq import heappop, heappush
from math import ceil

import polars as pl

from sightline.core.algebra.scalars import find_largest
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_several
from sightline.subjects.serving.findings import list_steps, report_loss
from sightline.subjects.serving.load import find_worst
from sightline.subjects.serving.planning.step_costs import OUTLIER
from sightline.timeline.engine_gaps import list_request_spans
from sightline.timeline.engine_steps import DECODE

RULE = Rule("small-batch-decode", "Few requests decode together")

SMALL = 8
NOTABLE_SHARE = 0.3  # of the steps' time, as of what bounds a step (XProf)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if find_worst(run, "preemptions", "total"):
        return  # the KV cache keeps batches small: kv-cache-preemption says so
    steps = list_steps(run)
    if steps is None:
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
    """The same requests, admitted as they come: what their steps of decode take less, per step."""
    cycle = pl.col("duration_ns") + pl.col("scheduler_ns") + pl.col("in_step_ns")
    decodes = decodes.with_columns(cycle_ns=cycle)
    slope = _measure_slope(decodes)
    # A step of so many times the median is a pause, which a larger batch does not end. Of the rest
    # the mean: what they take in all has to be what a replay of the same batches gives.
    usual = decodes.filter(pl.col("cycle_ns") <= OUTLIER * pl.col("cycle_ns").median())
    alone = usual.select(pl.col("cycle_ns") - slope * pl.col("decode_requests"))
    base = max(alone.mean().item(), 0.0)
    requests = run.table("served_requests", ["start_ns", "output_tokens"]).drop_nulls()
    took = find_largest(usual.group_by("rank").agg(pl.col("cycle_ns").sum()), "cycle_ns")
    gain = max(took - _replay_decode(requests.sort("start_ns").rows(), base, slope), 0)
    waits = pl.col("there") > pl.col("decode_requests")
    held = pl.when(waits).then("cycle_ns").otherwise(0)
    whole = held.sum().over("rank")
    # In a step in which nobody waits nothing is gained.
    most = pl.min_horizontal(pl.lit(gain), whole)
    share = (held / whole.clip(lower_bound=1) * most).round().cast(pl.Int64)
    return decodes.with_columns(cost_ns=share, gain_ns=share)


def _replay_decode(requests: list[tuple[int, int]], base: float, slope: float) -> float:
    """What steps of decode take, ns, where each request (start, tokens) decodes from its arrival.

    A step takes `base`, and `slope` more for each request in it.
    """
    open_until: list[int] = []  # the step with which each running request ends
    now, spent, step, place = 0.0, 0.0, 0, 0
    while place < len(requests) or open_until:
        if not open_until:
            now = max(now, requests[place][0])
        while place < len(requests) and requests[place][0] <= now:
            if requests[place][1] > 1:  # the first token comes with the prompt
                heappush(open_until, step + requests[place][1] - 1)
            place += 1
        if not open_until:
            continue
        # Nobody comes or goes until the next arrival or end: so many steps are alike.
        each = base + slope * len(open_until)
        count = open_until[0] - step
        if place < len(requests):
            count = max(min(count, ceil((requests[place][0] - now) / max(each, 1.0))), 1)
        step, now, spent = step + count, now + count * each, spent + count * each
        while open_until and open_until[0] <= step:
            heappop(open_until)
    return spent


def _measure_slope(decodes: pl.DataFrame) -> float:
    """What a request adds to a step, ns: by the medians of the smallest and the largest batch."""
    sizes = decodes.group_by("decode_requests").agg(ns=pl.col("cycle_ns").median())
    least, most = sizes.sort("decode_requests").head(1), sizes.sort("decode_requests").tail(1)
    apart = find_largest(most, "decode_requests") - find_largest(least, "decode_requests")
    if not apart:
        return 0.0
    return max(float(most.item(0, "ns") - least.item(0, "ns")) / apart, 0.0)
