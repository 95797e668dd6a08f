"""What the two rules about uncoalesced access share: what is moved beyond what is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_pct
from sightline.diagnosis.kernel_bounds import L1, LIMIT_PCT, Case, Hit
from sightline.diagnosis.profiled import load_cases, make_findings

EXCESS_PCT = 5.0  # ours: below it nothing is to be won


class Access(NamedTuple):
    """A kind of memory access: its metrics, and what is counted of it."""

    moved: str  # metric with a value for each instruction: what was moved
    needed: str  # the same: what the accessed bytes need
    things: str  # 'sectors', 'wavefronts'
    units: tuple[str, ...]  # the units of `UNITS` in which the excess may be felt, the first first
    hit_rates: tuple[str | None, ...]  # for each the metric of what does not get so far, % of hits


def find_uncoalesced(run: Run, rule: Rule, access: Access, fix: str) -> Iterator[Finding]:
    """One finding per kernel name."""
    if not load_cases(run, (access.moved, access.needed), "--section SourceCounters"):
        return
    rates = [name for name in access.hit_rates if name is not None]
    every = load_cases(run, (access.moved, access.needed, *rates), "")
    places = find_worst_places(run, access.moved, access.needed)
    hits = []
    for case in every:
        moved, needed = case.get(access.moved), case.get(access.needed)
        if not moved or needed is None or 100 * (moved - needed) / moved < EXCESS_PCT:
            continue
        count = f"{format_count(round(moved - needed))} of {format_count(round(moved))}"
        evidence = (
            f"{format_pct(100 * (moved - needed) / moved)} of the {access.things} are excessive: "
            f"{count} {access.things}"
        )
        if case.kernel_id in places:
            evidence += f", most by {places[case.kernel_id]}"
        hits.append(_weigh_excess(case, access, 100 * (moved - needed) / moved, evidence))
    yield from make_findings(
        rule,
        hits,
        every,
        lambda h: f"{h.evidence}.",
        fix,
        f"sightline stats memory_hierarchy AFTER: {access.things} beyond the ideal",
    )


def _weigh_excess(case: Case, access: Access, share: float, evidence: str) -> Hit:
    """The hit, weighed with the unit in which the excess takes most of the kernel's time."""
    reach, felt = 1.0, {}
    for unit, rate in zip(access.units, access.hit_rates, strict=True):
        hit_pct = None if rate is None else case.get(rate)
        reach *= 1.0 if hit_pct is None else max(0.0, 1 - hit_pct / 100)
        felt[unit] = share * reach
    known = {unit: used for unit in felt if (used := case.use(unit)) is not None}
    if not known:
        return Hit(case, share, 100.0, evidence)
    worst = max(known, key=lambda unit: felt[unit] * known[unit])
    if len(access.units) > 1:
        evidence += f", most felt in {worst}"
    return Hit(
        case,
        felt[worst],
        known[worst],
        evidence,
        # All of it passes the L1's tags.
        next_limit=case.find_next_limit({L1: share, **felt}),
        relieves_limit=known[worst] >= LIMIT_PCT,
    )


def find_worst_places(run: Run, done: str, needed: str) -> dict[int, str]:
    """Of each kernel the instruction that causes most of what is `done` beyond what is `needed`.

    Both are metrics with a value for each instruction. Of several with as much, the first in the
    code.
    """
    key = ["kernel_id", "instance_id"]
    values = (
        run.scan("kernel_metrics")
        .filter(pl.col("instance_id").is_not_null())
        .select(*key, "metric", "value")
    )
    code = run.scan("instructions").drop("rank", "recording_id")
    worst = (
        values.filter(pl.col("metric") == done)
        .join(values.filter(pl.col("metric") == needed), on=key)
        .with_columns(excess=pl.col("value") - pl.col("value_right"))
        .join(code, left_on=key, right_on=["kernel_id", "address"])
        .filter(pl.col("excess") > 0)
        .sort("excess", "instance_id", descending=[True, False])
        .group_by("kernel_id", maintain_order=True)
        .first()
        .collect()
    )
    return {
        r["kernel_id"]: f"{r['file']}:{r['line']}"
        if r["line"] is not None
        else f"{r['opcode'] or 'the instruction'} at byte {r['offset']}"
        for r in worst.iter_rows(named=True)
    }
