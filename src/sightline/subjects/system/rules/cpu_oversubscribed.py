"""More threads want to run than there are CPU cores, and the launching thread waits its turn.

Symptom
    Gaps on the device in which the launching thread is ready to run, while all cores are taken.

Why it hurts
    Threads beyond the number of cores take turns of milliseconds. The thread that feeds the device
    waits like all others, and the device with it.

Evidence
    Context switches: times in which more threads wanted to run than there are cores
    (`sightline stats run_queue`), and in them the launching thread without a core. The gain is a
    bound from the timeline: that time on the device that lost most.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08), most of it at such times; else it is
    preempted-launch-thread.

Fix
    Start fewer threads: OMP_NUM_THREADS, torch.set_num_threads, num_workers of data loaders, one
    process per GPU; or ask the scheduler of the cluster for more cores (srun --cpus-per-task).

False positives
    Cores on which no recorded thread ever ran are not known, and may have been free: then affinity
    is the reason, not the number of threads.

References
    Linux, Documentation/scheduler/sched-design-CFS.rst; PyTorch, "CPU threading and TorchScript
    inference", on oversubscription.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice
from sightline.subjects.system.rules._blame import describe_others, name_victim, report_blame
from sightline.subjects.system.rules._waits import find_waits_for_cpu
from sightline.timeline import causes
from sightline.timeline.sleeps import count_runnable

RULE = Rule(
    "cpu-oversubscribed",
    "More threads than CPU cores",
    causes=(causes.OVERSUBSCRIBED,),
    explains_lateness=True,
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("sched_events"):
        return
    found = find_waits_for_cpu(run, crowded=True)
    if found is None:
        return
    blame, parts = found
    runnable = count_runnable(run)
    most = runnable.sort("runnable", descending=True).row(0, named=True)
    lost, thread = name_victim(run, blame)
    preempted = parts.filter(pl.col("state") == "preempted")
    yield from report_blame(
        run,
        RULE,
        blame,
        f"{lost} because {thread} waits for one of {format_count(most['cpus'])} CPU cores: up to "
        f"{format_several(most['runnable'], 'thread')} want to run at once.",
        describe_others(run, preempted, "other_tid", "preempted by"),
        Advice(
            fix="start fewer threads ("
            + choose_fix(
                run,
                "OMP_NUM_THREADS",
                training="OMP_NUM_THREADS, torch.set_num_threads, num_workers",
                pytorch="OMP_NUM_THREADS, torch.set_num_threads",
            )
            + "), or ask for more CPU cores (srun --cpus-per-task)",
            verify="sightline stats run_queue AFTER: no rows that are oversubscribed",
            cause="more threads want to run than there are cores",
            sources=("Linux, Documentation/scheduler/sched-design-CFS.rst",),
        ),
    )
