"""The device computes nearly all the time: only its kernels can make the program faster.

Symptom
    Hardly any idle time, and no copies or communication that compute does not hide.

Why it hurts
    It does not: this is how it should be. It says where to look next, which is not the host.

Evidence
    The share of the window in which a kernel computes, what kinds of work the kernels do, by their
    names, where those are known for half of the time, and the kernels that take most of it. Of the
    first one, where its launches leave room for few warps, or each take the time of a pass over the
    largest array that was copied (more than 64 MiB), once to two and a half times.

Threshold
    Compute over 80 % of the windows (ours: what is not compute then gains at most a quarter of the
    compute time). It comes first unless a finding gains 10 % of the window or more. Where the
    profiler ran one kernel at a time, as rocprofv3 does to collect counters, its gaps do not count.

Fix
    Profile the kernels named with Nsight Compute or rocprof-compute; fuse what only moves data; use
    tensor cores and lower precision; do less.

False positives
    A kernel that spins while it waits (a grid barrier, a device-side queue) counts as compute.

References
    TraceLens and HolisticTraceAnalysis: breakdown of the window into compute, exposed
    communication, copies and idle.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.kernel_labels import is_graph
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.algorithms import choose_in_ncu
from sightline.diagnosis.build import MAX_ROWS, Advice, Evidence, build_finding
from sightline.diagnosis.gaps import find_own_gaps
from sightline.roofline.operator_roofs import place_operators
from sightline.subjects.kernels.rules._half import advise_half
from sightline.subjects.kernels.rules._kinds import MOSTLY_PCT, split_into_kinds
from sightline.subjects.kernels.rules._launches import (
    advise_algorithm,
    describe_launch,
    list_filled,
    pick_longest,
)
from sightline.subjects.kernels.rules._passes import Passes, find_passes
from sightline.subjects.kernels.rules._room import LittleRoom, find_few_blocks, find_little_room
from sightline.subjects.kernels.rules._spills import find_spill
from sightline.timeline.classes import is_communication
from sightline.timeline.copies import is_too_little
from sightline.timeline.run_labels import label_run_kernels
from sightline.timeline.world import NATIVE, UNKNOWN, read_world

RULE = Rule(
    "device-busy",
    "The GPU computes nearly all the time",
    over_time=True,
    explains=("dominating-kernel",),
)

BUSY_PCT = 80.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or is_too_little(run):
        return
    rows = run.ask("breakdown")
    windows = max(sum_column(rows, "window_ns"), 1)
    busy = 100 * sum_column(rows, "compute_ns") / windows
    every = run.ask("kernels")
    kernels = every.filter(~is_communication(pl.col("name")))
    own_gaps = find_own_gaps(run)
    if kernels.is_empty() or (busy < BUSY_PCT and own_gaps is None):
        return
    # As the table has it that the finding names (kernel_pct of `kernels`).
    whole = max(sum_column(every, "total_ns"), 1)
    top = kernels.group_by("name").agg(pl.col("instances", "total_ns").sum())
    top = top.sort("total_ns", "name", descending=[True, False]).head(MAX_ROWS)
    name, _, first_ns = top.row(0)
    labels = label_run_kernels(run)
    kinds = split_into_kinds(kernels, whole - sum_column(kernels, "total_ns"))
    # A program's own kernel may be called transpose, and be all that it is there for.
    moves = (
        kinds is not None
        and kinds.moving_pct >= MOSTLY_PCT
        and read_world(run).framework not in (NATIVE, UNKNOWN)
    )
    said = (
        f"{own_gaps.text}, the kernels' times are not."
        if own_gaps is not None
        else f"The GPU computes for {format_pct(busy)} of the window."
    )
    if kinds is not None and moves:
        told = (
            f"{format_pct(kinds.moving_pct)} of the kernel time is in kernels that move data and "
            "compute next to nothing."
        )
    else:
        told = f"{labels[name]} takes {format_pct(100 * first_ns / whole)} of the kernel time"
        told = f"{told}{_describe_launch(run, name)}."
    spill = None if moves else find_spill(run, name)
    hint = None if moves else spill or _find_hint(run, name)
    chosen = choose_in_ncu(name)
    few = " -c 3" if chosen else ""
    profile = (
        "record what is in the graph first, which is one operation here:  nsys profile "
        "--cuda-graph-trace=node"
        if is_graph(name)
        else f"profile it:  ncu --set full{chosen}{few}  (AMD: rocprof-compute profile)"
    )
    yield build_finding(
        RULE,
        f"{said} {told}",
        Evidence(
            (
                *([] if kinds is None else [kinds.text]),
                *([] if spill is None else [spill.text]),
                *(
                    f"{format_pct(100 * ns / whole)}  {format_count(n)} × {labels[name]}, "
                    f"{format_ns(ns)}"
                    for name, n, ns in top.rows()
                ),
                *([] if hint is None or hint is spill else [hint.text]),
                *_describe_roofs(run, whole),
            ),
            where={"kernel": name, "busy_pct": busy, "kernel_pct": 100 * first_ns / whole},
        ),
        Advice(
            fix=_advise_fusing(run, profile)
            if moves
            else (hint.fix if hint else "")
            + (advise_algorithm(run, name) if hint is None or hint is spill else "")
            + profile,
            verify="sightline stats kernels AFTER",
        ),
        title=RULE.title if own_gaps is None else own_gaps.title,
        severity="info",
        confidence="high",
        states_limit=True,
    )


def _find_hint(run: Run, name: str) -> LittleRoom | Passes | None:
    """What its launches alone tell of a kernel: few blocks, few warps, passes over the data."""
    return find_few_blocks(run, name) or find_little_room(run, name) or find_passes(run, name)


def _describe_launch(run: Run, name: str) -> str:
    """', with 40 blocks of …', of the kernel's usual launch, where that is recorded."""
    launches = list_filled(run).filter(pl.col("name") == name)
    return "" if launches.is_empty() else f", with {describe_launch(pick_longest(launches))}"


def _advise_fusing(run: Run, profile: str) -> str:
    """What to do where most of the time only moves data."""
    fuse = choose_fix(
        run,
        "fuse them first: each pass over memory that is saved counts",
        training="fuse them first (torch.compile, fused norms, attention and optimizers): each "
        "pass over memory that is saved counts",
        pytorch="fuse them first (torch.compile, fused norms and attention): each pass over memory "
        "that is saved counts",
        jax="put the step under one jax.jit, so that XLA fuses them: each pass over memory that is "
        "saved counts",
    )
    return f"{fuse}{advise_half(run)}; then {profile}"


def _describe_roofs(run: Run, whole_ns: int) -> Iterator[str]:
    """How near operators of known shapes are to their roofs, where that is much of the time."""
    if not run.rows("host_ops"):
        return
    calls = place_operators(run).drop_nulls("roof_ns")
    took = sum_column(calls, "kernel_ns")
    if 2 * took < whole_ns:
        return
    over = pl.max_horizontal(0, pl.col("kernel_ns") - pl.col("roof_ns")).round().cast(pl.Int64)
    kinds = calls.group_by("kind").agg(gap=over.sum())
    kind, most = kinds.sort("gap", "kind", descending=[True, False]).row(0)
    gap = sum_column(kinds, "gap")
    yield (
        f"operators of known shapes ({format_pct(100 * took / whole_ns)} of the kernel time) run "
        f"at {format_pct(100 - 100 * gap / took)} of their roofs; {format_pct(100 * most / gap)} "
        f"of the gap is {kind}  (sightline stats gap_to_peak)"
        if gap
        else f"operators of known shapes take {format_ns(took)}, all at their roofs"
    )
