"""Findings about what happened once: they are not part of what each step costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from sightline.core import registry
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.registry import OF_WINDOW
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.price import share_of
from sightline.timeline.cold_runs import find_cold_pauses
from sightline.timeline.copies import LEAST_OPERATIONS as FEW_OPERATIONS
from sightline.timeline.segments import REPEATING
from sightline.timeline.step_clock import FOUND_ON_DEVICE, list_steps

# A pause is of one step where it holds nearly all of what a finding counts, of so many steps that
# it would have come back (ours).
MOST_PCT, LEAST_STEPS = 80.0, 5
# Without steps one pause is once where so many operations had the chance of another (ours), or that
# which it ends at ran as often as there would be steps.
LEAST_OPERATIONS = 1_000
# `Finding.where` holds it for findings of one step.
ONCE = "once_in_step"


def mark_one_offs(run: Run, found: Sequence[Finding], rules: Mapping[str, Rule]) -> list[Finding]:
    """The findings; where nearly all of one about idle time lies in one step, it says so.

    What cannot be seen in the rows that a finding carries, the longest of its places, is not said.
    """
    idle = {name for name, rule in rules.items() if rule.causes}
    if not any(f.rule in idle or _is_pause(f) for f in found):
        return list(found)
    if find_cold_pauses(run).height:
        return [_mark_first_run(f) if f.rule in idle and f.cost_ns else f for f in found]
    if 0 < run.rows("device_ops") < FEW_OPERATIONS:
        return [_mark_single(f) if _is_pause(f) and f.cost_ns else f for f in found]
    # What was found on one stream divides the run only where segments say so.
    known = list_steps(run)
    if run.window != REPEATING:
        known = known.filter(pl.col("source") != FOUND_ON_DEVICE)
    steps = known.select("rank", "step", step_ns="start_ns", step_end_ns="end_ns")
    if steps.group_by("rank").len().filter(pl.col("len") >= LEAST_STEPS).height:
        return [_mark(f, steps) if f.rule in idle else f for f in found]
    if run.rows("device_ops") < LEAST_OPERATIONS:
        return [_mark_pause(f) if f.rule in idle and _had_chances(run, f) else f for f in found]
    return [_mark_pause(f) if f.rule in idle else f for f in found]


def _is_pause(found: Finding) -> bool:
    """Whether it is about idle time, and not about operations."""
    subject = registry.subject_of("rules", found.rule.replace("-", "_"))
    return subject is not None and subject.name == "idle"


def _mark_single(found: Finding) -> Finding:
    """Of a handful of operations: a pause between two of them is none that is known to come back.

    What a test does on the host between two cases (computes what it compares with, prints) is no
    part of what it tests.
    """
    line = "each operation ran once: nothing shows that this pause recurs"
    return replace(
        found, evidence=(*found.evidence, line), where={**found.where, ONCE: "each operation once"}
    )


def _mark_first_run(found: Finding) -> Finding:
    """Of a first run: nothing shows that it recurs, so it is a remark."""
    line = "this is a first run: nothing shows that it recurs"
    return replace(
        found,
        evidence=(line, *found.evidence),
        where={**found.where, ONCE: "first run"},
        severity="info",
    )


def _had_chances(run: Run, found: Finding) -> bool:
    """Whether what ends the longest pause ran so often that the pause would have come back."""
    longest = max(_list_places(found), key=lambda r: r["end_ns"] - r["start_ns"], default={})
    ops = run.table("device_ops", ["device_op_id", "name"])
    name = ops.filter(pl.col("device_op_id") == longest.get("after_id", -1)).get_column("name")
    return name.len() == 1 and int((ops.get_column("name") == name[0]).sum()) >= LEAST_STEPS


def _mark_pause(found: Finding) -> Finding:
    """Where no steps are known: a finding of one pause, among very many operations."""
    longest = max((r["end_ns"] - r["start_ns"] for r in _list_places(found)), default=0)
    if not found.direct_ns or 100 * longest < MOST_PCT * found.direct_ns:
        return found
    share = format_pct(min(100 * longest / found.direct_ns, 100.0))
    return replace(
        found,
        evidence=(*found.evidence, f"{share} of it is one pause: it happens once"),
        where={**found.where, ONCE: "one pause"},
    )


def _list_places(found: Finding) -> list[dict[str, Any]]:
    """The rows of a finding of the window that have a begin and an end."""
    if share_of(found.rule) != OF_WINDOW:
        return []
    return [r for r in found.rows if r.get("start_ns") is not None and r.get("end_ns") is not None]


def _mark(found: Finding, steps: pl.DataFrame) -> Finding:
    places = _list_places(found)
    if not places or not found.direct_ns:
        return found
    rows = pl.DataFrame(
        [(r.get("rank", 0), r["start_ns"], r["end_ns"]) for r in places],
        schema={"rank": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64},
        orient="row",
    )
    each = (
        rows.join(steps, on="rank")
        # A pause begins where the step before it ends: it is the next one's.
        .filter(pl.col("end_ns").is_between("step_ns", "step_end_ns"))
        .unique(["rank", "start_ns"])
        .group_by("rank", "step_ns")
        .agg(pl.col("step").first(), ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        .sort("ns", "step_ns", descending=[True, False])
    )
    if each.is_empty() or 100 * each.item(0, "ns") < MOST_PCT * found.direct_ns:
        return found
    share = format_pct(min(100 * each.item(0, "ns") / found.direct_ns, 100.0))
    count = steps.filter(pl.col("rank") == each.item(0, "rank")).height
    return replace(
        found,
        evidence=(
            *found.evidence,
            f"{share} of it lies in one of {format_several(count, 'step')}: it happens once",
        ),
        where={**found.where, ONCE: each.item(0, "step")},
    )
