"""The thread that launches work was ready to run, and another thread had its CPU core.

Symptom
    Gaps on the device in which the launching thread neither works nor waits: it has no CPU core.

Why it hurts
    A device runs dry in microseconds. A time slice of Linux is milliseconds long: each time that
    the launching thread loses its core, the device may lose as much.

Evidence
    Context switches, and wake-ups where they were recorded, of the threads that launch: the time in
    which one was preempted, or woken and not yet running, inside the gaps that its launches end
    (`sightline stats thread_states`, `wakeup_latency`). The gain is a bound from the timeline: that
    time on the device that lost most. Silent where most of it lies in times with more threads than
    cores: that is cpu-oversubscribed.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Keep others off its cores: taskset or srun --cpu-bind, cgroup cpusets, isolcpus with IRQ
    affinity; a higher priority (nice, chrt); fewer workers of data loaders than cores.

False positives
    A tracer's own threads; a container whose CPU quota (cgroup cpu.max) stops the thread: it looks
    the same.

References
    Linux, Documentation/scheduler/sched-design-CFS.rst and sched-eevdf.rst; sched(7).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns
from sightline.diagnosis.build import NOTABLE_PCT, Advice, abstain
from sightline.subjects.system.rules._blame import (
    describe_others,
    find_blame,
    name_victim,
    report_blame,
)
from sightline.subjects.system.rules._waits import find_waits_for_cpu
from sightline.timeline import causes
from sightline.timeline.sleeps import list_states

RULE = Rule(
    "preempted-launch-thread",
    "The launching thread has no CPU",
    causes=(causes.PREEMPTED,),
    explains_lateness=True,
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("sched_events"):
        return
    found = find_waits_for_cpu(run, crowded=False)
    if found is None:
        yield from _abstain_without_reasons(run)
        return
    blame, parts = found
    preempted = parts.filter(pl.col("state") == "preempted")
    woken = parts.filter(pl.col("state") == "woken")
    lost, thread = name_victim(run, blame)
    by = describe_others(run, preempted, "other_tid", "preempted by")
    first = f" {by[0].partition(' preempted ')[2]}" if by else ""
    lines = [*by]
    if woken.height:
        lines.append(f"{format_ns(int(woken['length'].sum()))} woken, and not yet on a CPU core")
    yield from report_blame(
        run,
        RULE,
        blame,
        f"{lost} because {thread} was ready and had no CPU core"
        + (f": preempted{first}." if preempted.height else "."),
        lines,
        Advice(
            fix="give the launching thread a core of its own: taskset, srun --cpu-bind or a cpuset "
            "for it, and fewer other threads there; or raise its priority (nice, chrt)",
            verify="sightline stats thread_states AFTER: preempted_ns and woken_ns of the thread",
            cause="other threads run on its CPU core",
            sources=("sched(7)",),
        ),
    )


def _abstain_without_reasons(run: Run) -> Iterator[Finding]:
    """Nsight Systems on Linux does not record why a thread left its core."""
    away = list_states(run).filter(pl.col("state") == "off_cpu")
    if run.rows("device_ops") and find_blame(run, away, NOTABLE_PCT) is not None:
        yield abstain(
            RULE,
            "the launching thread was off its CPU core in gaps, and the recording does not say "
            "whether it slept or was preempted; record the scheduler with LTTng or perf sched",
        )
