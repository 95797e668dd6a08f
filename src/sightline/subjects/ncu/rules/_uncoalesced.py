"""What the two rules about uncoalesced access share: what is moved beyond what is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_pct
from sightline.diagnosis.kernel_bounds import DRAM, L1, Case
from sightline.diagnosis.kernel_cases import load_cases
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import make_findings
from sightline.subjects.ncu._l1 import METRICS as L1_METRICS
from sightline.subjects.ncu._l1 import find_part_of_l1

HIT_RATE = "lts__t_sector_hit_rate.pct"
# Of each instruction that accesses memory, the bits that a thread moves: 32 and more for a word or
# several, less for what is smaller.
ACCESS_BITS = "memory_access_size_type"
_WORD_BITS = 32
_MOSTLY = 0.5  # ours: of the excess
_IN_WORDS = (
    "its threads load single bytes or half words: load words (uchar4), several items a thread, and "
    "what neighbors share once, as a tile in shared memory"
)
EXCESS_PCT = 5.0  # ours: below it nothing is to be won


class Access(NamedTuple):
    """A kind of memory access: its metrics, and what is counted of it."""

    moved: str  # metric with a value for each instruction: what was moved
    needed: str  # the same: what the accessed bytes need
    things: str  # 'sectors', 'wavefronts'
    # Of each unit in which the excess may be felt, what it moved: the names of the metrics that are
    # added. Of the first one, all is of these accesses.
    units: dict[str, tuple[str, ...]]


def find_uncoalesced(run: Run, rule: Rule, access: Access, fix: str) -> Iterator[Finding]:
    """One finding per kernel name."""
    if not load_cases(run, (access.moved, access.needed), "--section SourceCounters"):
        return
    counts = [name for names in access.units.values() for name in names]
    every = load_cases(run, (access.moved, access.needed, *counts, HIT_RATE, *L1_METRICS), "")
    places = find_worst_places(run, access.moved, access.needed)
    # Into shared memory they were loaded already: there a word is a layout, which `fix` tells.
    narrow = set() if "shared" in access.moved else _find_narrow(run, access)
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
        hits.append(_weigh_excess(case, access, moved, needed, evidence))
    yield from make_findings(
        rule,
        hits,
        every,
        lambda h: f"{h.evidence}.",
        lambda h: f"{_IN_WORDS}; {fix}" if h.case.kernel_id in narrow else fix,
        f"sightline stats memory_hierarchy AFTER: {access.things} beyond the ideal",
    )


def _find_narrow(run: Run, access: Access) -> set[int]:
    """The kernels most of whose excess is moved by loads and stores of less than a word."""
    key = ["kernel_id", "instance_id"]
    each = [
        run.scan("kernel_metrics")
        .filter(pl.col("metric") == metric, pl.col("instance_id").is_not_null())
        .select(*key, pl.col("value").alias(name))
        for metric, name in (
            (access.moved, "moved"),
            (access.needed, "needed"),
            (ACCESS_BITS, "bits"),
        )
    ]
    excess = pl.col("moved") - pl.col("needed")
    rows = each[0].join(each[1], on=key).join(each[2], on=key).filter(excess > 0)
    is_narrow = pl.col("bits").is_between(0, _WORD_BITS, closed="none")
    shares = rows.group_by("kernel_id").agg(
        share=excess.filter(is_narrow).sum() / excess.sum(),
    )
    return set(shares.filter(pl.col("share") > _MOSTLY).collect().get_column("kernel_id"))


def _weigh_excess(case: Case, access: Access, moved: float, needed: float, evidence: str) -> Hit:
    """The hit, weighed with the unit in which the excess takes most of the kernel's time.

    What a unit moved beyond what is needed is excess there. A cache before it may have kept it
    away: then it moved less than all that was asked for.
    """
    share = 100 * (moved - needed) / moved
    felt = {}
    for unit, names in access.units.items():
        if unit == L1:
            felt[unit] = share * find_part_of_l1(case, "shared" if "shared" in access.moved else "")
            continue
        counts = [n for name in names if (n := case.get(name)) is not None]
        there = sum(counts) if counts else moved
        felt[unit] = min(share, max(0.0, 100 * (1 - needed / there))) if there else 0.0
        if unit == DRAM and not counts:
            felt[unit] = share * (1 - (case.get(HIT_RATE) or 0.0) / 100)
    hit = relieve(case, felt, evidence)
    known = [unit for unit in felt if case.use(unit) is not None]
    if len(known) < 2:
        return hit
    worst = max(known, key=lambda unit: felt[unit] * (case.use(unit) or 0.0))
    return replace(hit, evidence=f"{evidence}, most felt in {worst}")


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
