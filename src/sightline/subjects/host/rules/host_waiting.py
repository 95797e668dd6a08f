"""The main thread sleeps, and neither the DataLoader nor another rank is why.

Symptom
    Steps are long, and the CPU is not busy.

Why it hurts
    A thread that sleeps in a read, a write, a lock or a network call computes nothing; the next
    operator starts when it wakes.

Evidence
    What the operating system counted at the ends of steps: CPU time and waiting for a CPU of the
    thread; what is neither is sleep, and waiting for a CPU on waking counts with it. Sleep that
    loading, collectives or operators of other threads explain is taken off, and so is all that does
    not fit into long stretches without an operator: operators sleep while other threads compute
    their part. What it sleeps for, samples of the call that it is in tell (`sightline stats
    step_sleeps`), and samples of stacks the lines. The gain is a bound: all of that time.

Threshold
    Over 10 % of the window (ours: as for loading).

Fix
    Do it in another thread or process; once instead of each step; asynchronously. For files:
    buffer writes, save checkpoints less often or asynchronously, read ahead.

False positives
    A program that is meant to wait, such as a server without requests.

References
    proc(5), schedstat; getrusage(2); PyTorch, torch.distributed.checkpoint.async_save.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.advice import NATIVE_STACKS, PYTHON_STACKS, choose_fix
from sightline.diagnosis.build import Advice
from sightline.subjects.host.rules._asleep import (
    WAITING_PCT,
    Blocked,
    measure_unexplained_sleep,
    measure_woken,
    report_blocked,
)
from sightline.subjects.host.rules._sampled import name_waits
from sightline.subjects.host.rules._shared import list_names
from sightline.timeline.host_parts import has_only_host, list_long_python
from sightline.timeline.step_usage import sum_sleeps, sum_usage

_LEAST_WOKEN_PCT = 1.0  # less is no evidence
LEAST_SAMPLES = 10  # a share of fewer says little (ours)
RULE = Rule("host-waiting", "The main thread sleeps", explains_lateness=True)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run):
        return
    slept = measure_unexplained_sleep(run)
    if slept is None or slept.pct < WAITING_PCT:
        return
    usage = sum_usage(run).filter(pl.col("rank").is_in(slept.ranks))
    waits = name_waits(run)
    lines = [*_name_causes(run, slept), *waits]
    steps, blocks = usage.select(pl.col("steps").sum(), pl.col("disk_operations").sum()).row(0)
    if blocks and steps:
        lines.append(f"{format_several(blocks // steps, 'disk block')} read or written a step")
    lines += list_names(list_long_python(run).filter(pl.col("layer") == "python"))
    yield report_blocked(
        RULE,
        slept,
        f"{slept.there.thread} {_name_state(run)} for {slept.there.share} of its time: it waits "
        "for a file, a lock, the network or another process, and not for data or other ranks.",
        lines,
        Advice(
            fix="move what it waits for to another thread or process, or do it once instead of "
            "each step" + ("" if waits else _show_where(run)),
            verify="sightline stats step_usage AFTER: asleep_pct",
        ),
    )


def _name_state(run: Run) -> str:
    """What a thread does that waits: where other programs run, it may have no CPU when it wakes."""
    woken = measure_woken(run)
    if woken is None or woken.pct < _LEAST_WOKEN_PCT:
        return "sleeps"
    return "sleeps, or has been woken and has no CPU yet,"


def _show_where(run: Run) -> str:
    return f";  {choose_fix(run, NATIVE_STACKS, python=PYTHON_STACKS)}  shows where"


def _name_causes(run: Run, slept: Blocked) -> list[str]:
    """Shares of the samples in which main threads slept, the largest two."""
    found = sum_sleeps(run).filter(pl.col("rank").is_in(slept.ranks))
    each = found.group_by("waits_for").agg(pl.col("slept_ns").sum(), pl.col("samples").sum())
    samples = sum_column(each, "samples")
    if samples < LEAST_SAMPLES:
        return []
    whole = sum_column(each, "slept_ns")
    top = each.sort("slept_ns", "waits_for", descending=[True, False]).head(2)
    shares = (
        f"{format_pct(100 * ns / whole)} for {name}"
        for name, ns in top.select("waits_for", "slept_ns").rows()
        if 20 * ns >= whole
    )
    return [f"when looked at, it slept {', '.join(shares)} ({format_several(samples, 'sample')})"]
