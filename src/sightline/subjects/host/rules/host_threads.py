"""PyTorch computes with more threads than the process has CPUs.

Symptom
    All CPUs are busy and steps are slow; the main thread hardly runs.

Why it hurts
    The threads of one operator wait for each other at its end. Where they share CPUs, each waits
    for the last one's turn, and spins or sleeps meanwhile.

Evidence
    torch.get_num_threads() and the CPUs of the process (sched_getaffinity), and the time for which
    the main thread had no CPU or slept. The gain replays a step with as many threads as CPUs: the
    CPU time of the process is what the main thread does alone and what all threads share evenly,
    and the latter is spread over the CPUs. That is the least: threads that spin while they wait,
    and products that are split into too many parts, need less then. All of the time in which the
    main thread does not run is the most.

Threshold
    More threads than CPUs, and over 5 % of the window lost (TraceLens agent, 2026-08).

Fix
    OMP_NUM_THREADS at the number of CPUs (of one rank, where several share a machine), or
    torch.set_num_threads.

False positives
    A limit on CPU time (cpu.max) below the CPUs that may be used is not seen.

References
    PyTorch, "CPU threading and TorchScript inference", on oversubscription.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.build import NOTABLE_PCT, Advice
from sightline.subjects.host.rules._asleep import (
    has_too_many_threads,
    measure_not_running,
    report_blocked,
)
from sightline.timeline.host_parts import has_only_host
from sightline.timeline.step_usage import sum_usage

RULE = Rule("host-threads", "More threads than CPUs", explains_lateness=True)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run) or not has_too_many_threads(run):
        return
    lost = measure_not_running(run)
    if lost is None or lost.pct < NOTABLE_PCT:
        return
    row = sum_usage(run).sort("torch_threads", descending=True).row(0, named=True)
    threads, cpus = row["torch_threads"], row["usable_cpus"]
    yield report_blocked(
        RULE,
        lost,
        f"PyTorch computes with {threads} threads on {cpus} CPUs: for {format_pct(lost.pct)} of "
        "its time the main thread has no CPU or waits for the others.",
        [f"ready to run, but no CPU: {format_pct(row['queued_pct'] or 0)}",
         f"asleep: {format_pct(row['asleep_pct'])}",
         "the gain is a lower bound: the same work on fewer threads. No counter shows how much "
f"of the work exists only because it is split so finely; up to {format_pct(lost.pct)} may go"],
        Advice(
            fix=f"OMP_NUM_THREADS={cpus}, or torch.set_num_threads({cpus})",
            verify="sightline stats step_usage AFTER: queued_pct, and the step's time",
        ),
        gain_ns=round(_replay_with_fewer(row) * lost.worst_ns),
        confidence="medium",
    )  # fmt: skip


def _replay_with_fewer(row: dict[str, Any]) -> float:
    """Which share of the time that a main thread does not run a thread per CPU would save."""
    threads, cpus = row["torch_threads"], row["usable_cpus"]
    shared = (row["process_ns"] - row["running_ns"]) * threads / (threads - 1)
    alone = max(row["running_ns"] - shared / threads, 0)
    lost = row["length_ns"] - row["running_ns"]
    saved = row["length_ns"] - alone - shared / cpus
    return float(min(max(saved / max(lost, 1), 0.0), 1.0))
