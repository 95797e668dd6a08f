"""Operators so small that calling them costs more than what they do.

Symptom
    Hundreds of operators of a few µs each in a step, with a little Python between each two.

Why it hurts
    Each operator costs the interpreter and the dispatcher some µs, whatever the size of its
    tensors: nothing is computed meanwhile.

Evidence
    The main thread's time in operators that only call others, in working operators under 10 µs, and
    in Python for less than 250 µs between two operators, outside of the optimizer (host-optimizer).
    The gain is a bound: all of that time; what small operators compute must still be computed.

Threshold
    Over 20 % of the window (ours: a training step of large convolutions on the CPU has 6 %).

Fix
    Larger batches; torch.compile; foreach or fused optimizers; one operator on a stacked tensor
    instead of a loop.

False positives
    None known; a profiler makes each operator slower by a µs or two: the true share is less.

References
    PyTorch Performance Tuning Guide, "Fuse operations"; PyTorch, "Recipe: benchmark", on overhead
    of a few µs for each operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_note, format_ns, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice
from sightline.subjects.host.rules._shared import (
    SHORT_NS,
    count_steps,
    list_names,
    report_share,
    take_share,
)
from sightline.timeline.host_parts import (
    COMMUNICATE,
    COMPILE,
    DISPATCH,
    LOAD,
    OPTIMIZE,
    has_only_host,
    list_segments,
    list_short_python,
    list_windows,
    uses_device,
)
from sightline.timeline.iterations import list_recorded_steps

RULE = Rule("host-dispatch", "Many small operators", explains_lateness=True)

DISPATCH_PCT = 20.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run):
        return
    other_rules = [LOAD, COMMUNICATE, OPTIMIZE, COMPILE]
    segments = list_segments(run).filter(~pl.col("part").is_in(other_rules))
    working = segments.filter("works")
    each = working.group_by("host_op_id").agg(pl.col("own_ns").sum())
    elsewhere = _list_elsewhere(run) if each.is_empty() else None
    if elsewhere is not None:
        each = elsewhere.select("host_op_id", own_ns=pl.col("end_ns") - pl.col("start_ns"))
    small = each.filter(pl.col("own_ns") < SHORT_NS).get_column("host_op_id")
    is_small = pl.col("works") & pl.col("host_op_id").is_in(small.implode())
    is_calling = (pl.col("layer") == "op") & ~pl.col("works")
    lost = pl.concat(
        [segments.filter(is_small | is_calling | (pl.col("part") == DISPATCH)),
         list_short_python(run)]
    )  # fmt: skip
    if elsewhere is not None:
        lost, working = _keep_between(run, lost, elsewhere), elsewhere
    share = take_share(run, lost)
    if share.pct < DISPATCH_PCT or small.len() < each.height / 2:
        return
    steps = count_steps(run)
    per = f", {format_count(small.len() // steps)} a step" if steps else ""
    median = each.get_column("own_ns").median()
    found = report_share(
        RULE,
        share,
        f"{share.there.thread} spends {share.there.share} of its time calling operators instead of "
        "computing: "
        + format_note(
            small.len(),
            f"of {format_several(each.height, 'operator')} are under {format_ns(SHORT_NS)}{per}.",
        ),
        [
            f"the median operator takes {format_ns(float(median or 0))}",  # type: ignore[arg-type]
            *list_names(working.filter(pl.col("host_op_id").is_in(small.implode()))),
        ],
        Advice(
            fix=choose_fix(
                run,
                "call fewer and larger operators: larger batches, or one stacked array instead "
                "of a loop over small ones",
                pytorch="torch.compile the step, take larger batches, or work on one stacked "
                "tensor instead of a loop over small ones",
                jax="put the whole step under one jax.jit, and loops into jax.lax.scan; or take "
                "larger batches",
            ),
            verify="sightline stats host_breakdown AFTER: window_pct of dispatch and Python",
            sources=("TraceLens: short below 10 µs",),
        ),
        confidence="medium",
    )
    yield _hide_behind_device(found) if uses_device(run) else found


def _hide_behind_device(found: Finding) -> Finding:
    """Of a program whose GPU was not recorded: the host's work may hide behind the GPU's."""
    line = (
        "it launches work on a GPU that was not recorded: if the GPU takes longer, this costs "
        "nothing"
    )
    return replace(found, severity="info", gain=None, method=None, evidence=(*found.evidence, line))


def _list_elsewhere(run: Run) -> pl.DataFrame | None:
    """Operators of other threads in the windows, as XLA's are; None where there are none."""
    windows = list_windows(run).select("rank", since="start_ns", until="end_ns")
    found = (
        run.table("host_ops")
        .filter(pl.col("layer") == "op")
        .join(windows, on="rank")
        .filter(pl.col("start_ns") >= pl.col("since"), pl.col("end_ns") <= pl.col("until"))
        .select("rank", "host_op_id", "name", "start_ns", "end_ns")
        .with_columns(own_ns=pl.col("end_ns") - pl.col("start_ns"))
    )
    return None if found.is_empty() else found


def _keep_between(run: Run, lost: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """What lies between a step's first operator and its last: before that one call stays."""
    steps = list_recorded_steps(run).select("rank", "start_ns", until="end_ns").sort("start_ns")
    if steps.is_empty():
        return lost
    spans = (
        ops.sort("start_ns")
        .join_asof(
            steps.with_columns(step="start_ns"), on="start_ns", by="rank", check_sortedness=False
        )
        .filter(pl.col("start_ns") < pl.col("until"))
        .group_by("rank", "step")
        .agg(first=pl.col("start_ns").min(), last=pl.col("end_ns").max())
        .sort("step")
    )
    return (
        lost.sort("start_ns")
        .join_asof(spans, left_on="start_ns", right_on="step", by="rank", check_sortedness=False)
        .filter(pl.col("start_ns") >= pl.col("first"), pl.col("end_ns") <= pl.col("last"))
        .drop("step", "first", "last", strict=False)
    )
