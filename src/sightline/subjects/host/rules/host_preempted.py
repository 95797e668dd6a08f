"""The main thread could run and has no CPU: others have it.

Symptom
    Steps differ in length, and the machine is busy with something else.

Why it hurts
    While another process has the CPU, nothing of the step goes on.

Evidence
    How long the kernel kept the thread that marks the steps in its run queue (schedstat), at the
    ends of steps, as far as these waits began with a preemption (getrusage's involuntary switches):
    the others belong to the sleep before them. The gain is that time.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08; as for preempted-launch-thread).

Fix
    Find who runs beside it (top, pidstat); pin it elsewhere (taskset, numactl, cpusets); ask the
    scheduler for whole cores; fewer workers and threads of the program itself.

False positives
    None known where the machine is the program's own. A limit of a container (cpu.max) shows the
    same: then nobody else runs, and the quota is too small.

References
    Linux, Documentation/scheduler/sched-stats.rst; Petrini et al., "The Case of the Missing
    Supercomputer Performance" (SC03), on noise.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.build import NOTABLE_PCT, Advice
from sightline.subjects.host.rules._asleep import (
    has_too_many_threads,
    measure_queued,
    report_blocked,
)
from sightline.timeline.host_parts import has_only_host
from sightline.timeline.step_usage import sum_usage

RULE = Rule("host-preempted", "The main thread waits for a CPU", explains_lateness=True)

_SHOWN_PCT = 0.05  # what the screen's share, which has one decimal, differs by


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run):
        return
    queued = measure_queued(run)
    if queued is None or queued.pct < NOTABLE_PCT or has_too_many_threads(run):
        return
    row = sum_usage(run).sort("queued_pct", descending=True).row(0, named=True)
    lines = []
    if row["usable_cpus"]:
        lines.append(
            f"the process itself keeps {row['cpus']:.2f} of its {row['usable_cpus']} CPUs busy"
        )
    on_waking = (row["queued_pct"] or 0) * (1 - (row["preempted_ratio"] or 0))
    if row["preempted_ratio"] is not None and on_waking >= _SHOWN_PCT:
        lines.append(
            f"for {format_pct(on_waking)} more it has no CPU when it wakes: "
            f"{format_pct(row['queued_pct'])} in all"
        )
    yield report_blocked(
        RULE,
        queued,
        f"{queued.there.thread} is ready to run and has no CPU for "
        f"{queued.there.share} of its time.",
        lines,
        Advice(
            fix="see who else runs (top, pidstat), and keep it off these CPUs: taskset, cpusets, a "
            "larger quota of the container, or fewer workers of the program itself",
            verify="sightline stats step_usage AFTER: queued_pct",
            sources=("TraceLens: exposed loss above 5 %",),
        ),
    )
