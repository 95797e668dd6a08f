"""For long the main thread is in no operator.

Symptom
    Long stretches of a step in which no operator runs.

Why it hurts
    Python works on one core, one object at a time; what it computes there takes a hundred times as
    long as an operator on a tensor.

Evidence
    The main thread's time outside of operators, loading and communication, in pieces of over
    250 µs and while no other thread of it is in an operator. Where Python functions were recorded,
    those that take most of it are named; else the lines that samples of stacks fell in, outside
    PyTorch and its loader. The gain is a bound: all of that time, less what the
    thread slept or had no CPU where steps were counted (`sightline stats step_usage`). Where
    neither was recorded, the thread may as well wait for something, and no gain is claimed.

Threshold
    Over 10 % of the window (ours: as for loading).

Fix
    Do it with operators on tensors, once instead of each step, or in a worker process. Where the
    thread waits, look at what it waits for: a server without requests has nothing to mend.

False positives
    Waiting for something that was not recorded (a lock, a file, another process) looks the same:
    record the system, too (sightline run --for system).

References
    PyTorch Performance Tuning Guide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.build import Advice
from sightline.subjects.host.rules._asleep import measure_queued, measure_unexplained_sleep
from sightline.subjects.host.rules._sampled import name_python
from sightline.subjects.host.rules._shared import list_names, report_share, take_share
from sightline.subjects.host.rules._there import find_there
from sightline.timeline.host_parts import has_only_host, has_operators, list_long_python

RULE = Rule("host-python", "Long stretches without an operator", explains_lateness=True)

PYTHON_PCT = 10.0
_FIX = "do it with operators on whole tensors, once before the loop, or in a worker"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run) or not has_operators(run):
        return
    share = take_share(run, list_long_python(run))
    slept = measure_unexplained_sleep(run)
    each = share.segments.group_by("rank").agg(ns=pl.col("own_ns").sum())
    for other in (slept, measure_queued(run)):  # host-waiting and host-preempted speak for these
        if other is not None:
            each = each.join(other.each, on="rank", how="left", suffix="_off", nulls_equal=True)
            left = (pl.col("ns") - pl.col("ns_off").fill_null(0)).clip(0)
            each = each.select("rank", ns=left)
            share = replace(
                share,
                cost_ns=max(share.cost_ns - other.cost_ns, 0),
                worst_ns=max(share.worst_ns - other.worst_ns, 0),
                pct=max(share.pct - other.pct, 0.0),
                there=find_there(run, each),
            )
    if share.pct < PYTHON_PCT:
        return
    runs = slept is not None or bool((share.segments.get_column("layer") == "python").any())
    lines = list_names(share.segments)
    if not (share.segments.get_column("layer") == "python").any():
        lines += name_python(run)
    spent = f"for {share.there.share} of its time"
    does = f"runs Python and no operator {spent}."
    if not runs:
        does = f"is in no operator {spent}: it runs Python, or waits."
        lines.append("with_stack=True of the profiler records which of the two")
    yield report_share(
        RULE,
        share,
        f"{share.there.thread} {does}",
        lines,
        Advice(
            # A server that waits for requests has nothing to vectorize.
            fix=_FIX
            if runs
            else f"if it runs Python: {_FIX};  if it waits, for requests of a server or for a "
            "file, look there",
            verify="sightline stats host_breakdown AFTER: window_pct of Python",
            cause="the main thread runs Python for long without an operator"
            if runs
            else "the main thread spends long outside operators",
        ),
        gain_ns=None if runs else 0,
        confidence="medium" if runs else "low",
    )
