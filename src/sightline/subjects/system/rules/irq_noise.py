"""Interrupts take the CPU core of the thread that launches work: noise of the operating system.

Symptom
    Launches that come late now and then, while the launching thread runs all the time.

Why it hurts
    A core that handles an interrupt does not run the thread, and the thread does not know. Of many
    ranks that wait for each other the unluckiest one counts each time.

Evidence
    Interrupts (irq, softirq, timers) on the launching thread's core while it ran, inside the gaps
    that its launches end (`sightline stats interrupt_times`, `cpu_times`). The gain is a bound from
    the timeline: that time on the device that lost most.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08); a remark where interrupts take over 1 % of a
    launching thread's core (ours: a timer of 250 Hz at 10 µs each takes 0.25 %).

Fix
    Move interrupts to other cores (/proc/irq/N/smp_affinity, irqbalance with a banned set), leave a
    core per node to the system (srun --core-spec), nohz_full and isolcpus for the others.

False positives
    The interrupts of the device's own driver are its work.

References
    Linux, Documentation/core-api/irq/irq-affinity.rst and admin-guide/kernel-per-CPU-kthreads.rst;
    F. Petrini, D. Kerbyson and S. Pakin, "The Case of the Missing Supercomputer Performance",
    SC 2003.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.intervals import measure_cover, merge_intervals
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct, format_several
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, Loss, make_finding
from sightline.subjects.system.rules._blame import (
    find_blame,
    list_parts,
    list_spans,
    name_thread,
    name_victim,
    report_blame,
    sum_by,
)
from sightline.timeline import causes
from sightline.timeline.sleeps import list_states
from sightline.timeline.system_waits import ON_HOST, list_interruptions

RULE = Rule(
    "irq-noise",
    "Interrupts on the launching core",
    causes=(causes.INTERRUPTED,),
    explains_lateness=True,
)
_REMARK_PCT = 1.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("interrupts") or not run.rows("sched_events"):
        return
    handled = list_interruptions(run)
    blame = find_blame(run, handled, least_pct=0, cause="interrupted")
    if blame is None:
        return
    parts = list_parts(run, blame, handled)
    cores = [
        f"{format_ns(ns)} in {format_several(n, 'interrupt')} of CPU core {cpu}"
        for cpu, ns, n in sum_by(parts, "cpu")[:2]
    ]
    named = parts.with_columns(
        what=pl.concat_str("kind", pl.lit(" "), pl.col("name").fill_null(""))
    )
    kinds = sum_by(named, "what")[:3]
    lines = [*cores, *(f"{format_ns(ns)} in {format_count(n)} × {what}" for what, ns, n in kinds)]
    advice = Advice(
        fix="move interrupts to other cores (/proc/irq/N/smp_affinity), or leave a core to the "
        "system (srun --core-spec)",
        verify="sightline stats cpu_times AFTER: interrupt_ns of the thread's core",
        cause="the launching thread's core handles interrupts",
        sources=("Linux, Documentation/core-api/irq/irq-affinity.rst",),
    )
    if blame.pct >= NOTABLE_PCT:
        lost, thread = name_victim(run, blame)
        yield from report_blame(
            run,
            RULE,
            blame,
            f"{lost} because interrupts hold the CPU core of {thread}.",
            lines,
            advice,
        )
    elif blame.has_device:
        yield from _remark(run, handled, blame.cost_ns, lines, advice)


def _remark(
    run: Run, handled: pl.DataFrame, cost_ns: int, lines: list[str], advice: Advice
) -> Iterator[Finding]:
    """Interrupts take much of the core, though the device has hardly waited for it."""
    tids = list_spans(run).get_column("tid").unique()
    ran = list_states(run).filter(
        pl.col("tid").is_in(tids.implode()) & (pl.col("state") == "running")
    )
    mine = handled.filter(pl.col("tid").is_in(tids.implode()))
    taken = measure_cover(mine, ON_HOST).rename({"covered_ns": "taken"})
    shares = (
        merge_intervals(ran, ON_HOST)
        .group_by(ON_HOST)
        .agg(ran=(pl.col("end_ns") - pl.col("start_ns")).sum())
    )
    worst = taken.join(shares, on=ON_HOST).with_columns(pct=100 * pl.col("taken") / pl.col("ran"))
    worst = worst.filter(pl.col("pct") >= _REMARK_PCT).sort("pct", descending=True)
    if worst.is_empty():
        return
    row = worst.row(0, named=True)
    whole = sum_column(mine.with_columns(ns=pl.col("end_ns") - pl.col("start_ns")), "ns")
    yield make_finding(
        run,
        RULE,
        f"Interrupts take {format_pct(row['pct'])} of the time in which "
        f"{name_thread(run, row['tid'])} runs, which launches the GPU's work.",
        Loss(cost_ns=cost_ns, bound_ns=0),
        Evidence([f"{format_ns(whole)} in {format_several(mine.height, 'interrupt')}", *lines]),
        advice,
    )
