"""The KV cache is full: requests are preempted, or wait for room.

Symptom
    Some requests stop for seconds, and then go on; throughput falls as load grows.

Why it hurts
    Who is preempted loses its keys and values, and its prompt and all of its tokens are computed
    again.

Evidence
    The server's count of preempted (SGLang: retracted) requests, and the usage of its KV cache, by
    /metrics or its log. Where the client's log and the engine's steps lie beside it, the gain is a
    replay of these requests with what the recorded steps cost and no limit of the cache: nothing is
    computed twice, and nobody is missing in a step.

Threshold
    Any preemption; or a usage of 90 % (vLLM's watermark and SGLang's retraction begin above that).

Fix
    Room for the KV cache, or fewer requests at once.

False positives
    A usage near 100 % without preemptions and without a queue is a cache in good use.

References
    vLLM, Optimization and Tuning: Preemption. SGLang, Hyperparameter Tuning.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.subjects.serving.findings import list_steps, measure_windows
from sightline.subjects.serving.flags import name_flag
from sightline.subjects.serving.load import FULL_PCT, find_worst
from sightline.subjects.serving.planning.room import count_recomputed, measure_room

RULE = Rule("kv-cache-preemption", "The KV cache is full")

_SHARE = "the share of prompt tokens that were computed more often than they were sent"
_PLAYED = "replay of the client's requests through a model of the scheduler, with room for all"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding."""
    preempted = int(find_worst(run, "preemptions", "total") or 0)
    usage, waiting = find_worst(run, "kv_cache", "max"), find_worst(run, "waiting", "max") or 0
    is_full = usage is not None and usage >= FULL_PCT and waiting > 0
    if not preempted and not is_full:
        return
    lines = []
    if usage is not None and usage >= FULL_PCT:  # else nobody looked while it was full
        lines.append(f"the KV cache was {format_pct(usage)} full at most")
    if waiting:
        lines.append(f"{format_several(int(waiting), 'request')} waited at most")
    recomputed, again = _measure_recomputed(run)
    if again:
        told = format_ns(recomputed)
        lines.append(f"{format_several(again, 'token')} of prompts were computed again: {told}")
    room = measure_room(run)
    if room:
        lines.append(f"with room for all of them the same requests take {format_ns(room)} less")
    lost = recomputed if room is None else room
    every, longest = measure_windows(run)
    price = Price(lost, "ns", min(100 * lost / every, 100.0)) if lost else None
    gain = Price(lost, "ns", min(100 * lost / longest, 100.0)) if lost else None
    flag = name_flag(run, RULE.name)
    summary = f"The server preempted {format_several(preempted, 'request')}."
    if not preempted:
        summary = "Requests wait while the KV cache has no room for them."
    yield build_finding(
        RULE,
        summary,
        Evidence(lines),
        Advice(
            fix=flag.fix,
            verify="sightline stats serving_load AFTER: preemptions, kv_cache, waiting",
            sources=(flag.source,),
        ),
        price=(price, gain),
        severity=None if lost else "warning",
        confidence="medium" if lost else "high",
        method=None if not lost else _SHARE if room is None else _PLAYED,
    )


def _measure_recomputed(run: Run) -> tuple[int, int]:
    """What computing prompts again took of the slowest rank, ns, and how many tokens these were.

    Nothing where the client's requests are not those of the steps, or a cache of prefixes hides it.
    """
    steps = list_steps(run)
    if steps is None:
        return 0, 0
    prompts = steps.filter(pl.col("prefill_tokens") > 0)
    usual = steps.filter(pl.col("phase") == "decode")["duration_ns"].median() or 0
    worst = (0, 0)
    for mine in prompts.partition_by("rank"):
        computed, again = count_recomputed(run, mine)
        beside = pl.when(pl.col("decode_requests") > 0).then(usual).otherwise(0)
        took = mine.select((pl.col("duration_ns") - beside).clip(lower_bound=0).sum()).item()
        worst = max(worst, (round(took * again / max(computed, 1)), again))
    return worst
