"""Requests that are being answered wait while the prompts of others are computed.

Symptom
    Some tokens come late, all requests' at once: the tail of the inter-token latency is long.

Why it hurts
    Each running request's next token waits until the step with the prompt is over.

Evidence
    Steps that compute prompts beside running requests (mixed), without what a usual step of decode
    takes; and steps of prompts alone, before which requests were decoding that decode behind them.
    The gain is a bound: prefill on other servers takes all of it from these requests, and where
    the client's log is there, it is a replay of them with prompts that come computed. A smaller
    piece of the prompt in each step only spreads it. What preempted requests compute again is
    kv-cache-preemption's.

Threshold
    5 % of the window (TraceLens agent, 2026-08, of time that a problem takes).

Fix
    Bound the prompt tokens of a step, or prefill on servers of their own.

False positives
    Throughput alone is wanted: then large pieces are right.

References
    Agrawal et al., Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve (2024).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import find_largest
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.subjects.serving.findings import list_steps, report_loss
from sightline.subjects.serving.load import find_worst
from sightline.subjects.serving.planning.room import count_recomputed, measure_elsewhere
from sightline.timeline.engine_steps import DECODE, MIXED, PREFILL

RULE = Rule("prefill-stalls-decode", "Prompts hold up running requests")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    steps = list_steps(run)
    if steps is None:
        return
    losses = _leave_out_recomputed(run, steps, list_stalls(steps))
    if losses.is_empty():
        return
    played = None if find_worst(run, "preemptions", "total") else measure_elsewhere(run)
    cost = int(losses["cost_ns"].sum())
    tokens = int(losses["prefill_tokens"].sum())
    share = 100 * cost / max(int(steps["duration_ns"].sum()), 1)
    usual = losses.get_column("usual_ns").drop_nulls().median()
    lines = [
        f"{format_several(losses.height, 'step')} of {steps.height} compute "
        f"{format_several(tokens, 'prompt token')} beside "
        f"{format_several(find_largest(losses, 'held'), 'running request')} or fewer",
        f"such a step takes {format_ns(int(losses['duration_ns'].median() or 0))}"  # type: ignore[arg-type]
        + (f", one of decode alone {format_ns(int(usual))}" if usual else ""),  # type: ignore[arg-type]
    ]
    yield from report_loss(
        run,
        RULE,
        losses if played is None else _scale(losses, played),
        f"Running requests wait for others' prompts for {format_pct(share)} of all step time.",
        lines,
        verify="sightline stats engine_steps AFTER: duration_ns of mixed steps",
        method="bound from the timeline: steps with prompts, less a usual step of decode"
        if played is None
        else "replay of the client's requests, with prompts that come computed",
    )


def _leave_out_recomputed(run: Run, steps: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """The stalls without the share of prompts that a full KV cache has computed again."""
    if not find_worst(run, "preemptions", "total"):
        return losses
    first = steps.filter(pl.col("rank") == pl.col("rank").min())
    computed, again = count_recomputed(run, first)
    cost = int(losses["cost_ns"].sum())
    return _scale(losses, round(cost * (1 - again / max(computed, 1))))


def _scale(losses: pl.DataFrame, whole: int) -> pl.DataFrame:
    """The same losses, with another sum."""
    share = whole / max(int(losses["cost_ns"].sum()), 1)
    return losses.with_columns((pl.col("cost_ns", "gain_ns") * share).round().cast(pl.Int64))


def list_stalls(steps: pl.DataFrame) -> pl.DataFrame:
    """The steps of `engine_steps` that hold up running requests, with cost_ns and gain_ns.

    `held` is how many requests wait in it, `usual_ns` the median step of decode.
    """
    usual = pl.col("duration_ns").filter(pl.col("phase") == DECODE).median().over("rank")
    begun = pl.col("prefill_requests").fill_null(0).cum_sum() - pl.col(
        "prefill_requests"
    ).fill_null(0)
    # Who decodes next without having been prefilled from here on was running before.
    is_next = pl.when(pl.col("decode_requests") > 0)
    wanted = is_next.then(pl.col("decode_requests") - begun).backward_fill()
    known = steps.with_columns(
        usual_ns=usual,
        held=pl.when(pl.col("phase") == MIXED)
        .then("decode_requests")
        .otherwise((wanted + begun).over("rank")),
    )
    stalls = known.filter(
        pl.col("phase").is_in([MIXED, PREFILL]) & (pl.col("held") > 0)
    ).drop_nulls("usual_ns")  # how long the same requests take without prompts is not known else
    decodes = pl.when(pl.col("phase") == MIXED).then(pl.col("usual_ns")).otherwise(0)
    cost = (pl.col("duration_ns") - decodes).clip(lower_bound=0).cast(pl.Int64)
    return stalls.with_columns(cost_ns=cost, gain_ns=cost)
