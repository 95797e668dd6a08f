"""What the two rules about uncoalesced access share: what is moved beyond what is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.profiled import Hit, load_cases, make_findings
from sightline.units import format_count, format_pct

EXCESS_PCT = 5.0  # ours: below it nothing is to be won


class Access(NamedTuple):
    """A kind of memory access: its metrics, and what is counted of it."""

    moved: str  # metric with a value for each instruction: what was moved
    needed: str  # the same: what the accessed bytes need
    throughput: str  # of the unit that moves it, % of peak
    things: str  # 'sectors', 'wavefronts'


def find_uncoalesced(run: Run, rule: Rule, access: Access, fix: str) -> Iterator[Finding]:
    """One finding per kernel name."""
    if not load_cases(run, (access.moved, access.needed), "--section SourceCounters"):
        return
    every = load_cases(run, (access.moved, access.needed, access.throughput), "")
    places = find_worst_places(run, access.moved, access.needed)
    hits = []
    for case in every:
        moved, needed = case.get(access.moved), case.get(access.needed)
        if not moved or needed is None or 100 * (moved - needed) / moved < EXCESS_PCT:
            continue
        count = f"{format_count(round(moved - needed))} of {format_count(round(moved))}"
        evidence = f"{count} {access.things}"
        if case.kernel_id in places:
            evidence += f", most by {places[case.kernel_id]}"
        weight = case.get(access.throughput)
        share = 100 * (moved - needed) / moved
        hits.append(Hit(case, share, 100.0 if weight is None else weight, evidence))
    yield from make_findings(
        rule,
        hits,
        every,
        lambda h: f"{format_pct(h.local_pct)} of the {access.things} are excessive: {h.evidence}.",
        fix,
        f"sightline stats memory_hierarchy AFTER: {access.things} beyond the ideal",
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
