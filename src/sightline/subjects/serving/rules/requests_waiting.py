"""Requests wait to be admitted, and not for room in the KV cache.

Symptom
    The time to the first token grows with the load, while tokens come at their usual pace.

Why it hurts
    Nothing of a request is computed while it waits.

Evidence
    How many requests waited, and how long, by the server's /metrics, its log or a benchmark's
    details. The cost is the time in the queue of all requests, of the time that all of them took;
    where that is unknown, it is a remark.

Threshold
    A twentieth of the requests' time, or 10 requests that wait (ours: SGLang's guide calls a queue
    of 100 to 2,000 requests normal where throughput alone is wanted).

Fix
    More servers, or more requests at once.

False positives
    A benchmark that sends all of its requests at once measures throughput: they wait on purpose.

References
    SGLang, Hyperparameter Tuning. vLLM, Production Metrics.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.subjects.serving.flags import name_flag
from sightline.subjects.serving.load import FULL_PCT, find_worst, sum_counter

RULE = Rule("requests-waiting", "Requests wait to be admitted")

NOTABLE_PCT, MANY = 5.0, 10


def check(run: Run) -> Iterator[Finding]:
    """At most one finding; none where the KV cache is full, which says why they wait."""
    waiting = find_worst(run, "waiting", "max") or 0
    queued, took = find_worst(run, "queue", "mean") or 0.0, find_worst(run, "latency", "mean") or 0
    share = 100 * queued / took if took else 0.0
    is_full = (find_worst(run, "kv_cache", "max") or 0) >= FULL_PCT
    is_full = is_full or sum_counter(run, "preemptions") > 0
    if is_full or (waiting < MANY and share < NOTABLE_PCT):
        return
    lines = []
    if waiting:
        lines.append(f"{format_several(int(waiting), 'request')} waited at most")
    if queued and took:
        lines.append(
            f"a request waits {queued:,.1f} ms of {took:,.1f} ms on average ({format_pct(share)})"
        )
    usage = find_worst(run, "kv_cache", "max")
    if usage is not None:
        lines.append(f"the KV cache was {format_pct(usage)} full at most: it is not the limit")
    flag = name_flag(run, RULE.name)
    yield build_finding(
        RULE,
        "Requests wait before anything of them is computed.",
        Evidence(lines),
        Advice(
            fix=flag.fix,
            verify="sightline stats serving_load AFTER: waiting, queue",
            sources=(flag.source,),
        ),
        severity="warning",
        confidence="medium",
    )
