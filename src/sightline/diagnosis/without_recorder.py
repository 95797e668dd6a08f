"""Findings about the program without its recorder: where they are on the recorded timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.units import format_pct
from sightline.diagnosis.build import LOWER
from sightline.replay.unrecorded import Unrecorded

_MOMENTS = ("start_ns", "end_ns", "time_ns")


def show_recorded(found: Finding, rules: Mapping[str, Rule], bare: Unrecorded) -> Finding:
    """The finding with the moments of its evidence as they were recorded.

    A finding about idle time that gains less than the recorder's cost is uncertain by has one grade
    less of confidence, and says so.
    """
    if found.abstained:
        return found
    ranks = found.where.get("ranks") or [0]
    where = dict(found.where)
    if "time_ranges" in where:
        ends = iter(_restore(bare, [m for span in where["time_ranges"] for m in span], ranks[0]))
        where["time_ranges"] = [[next(ends) for _ in span] for span in where["time_ranges"]]
    rows = _restore_rows(bare, found.rows, ranks[0])
    found = replace(found, where=where, rows=rows)
    unsure_pct = 100 * (bare.high_ns - bare.low_ns) / 2 / bare.ns
    is_idle = found.rule in rules and bool(rules[found.rule].causes)
    if not is_idle or found.gain is None or (found.gain.pct or 0.0) >= unsure_pct:
        return found
    reason = (
        f"what recording cost is uncertain by {format_pct(unsure_pct)} of the time, more than this "
        "gains"
    )
    confidence = LOWER[found.confidence]
    return replace(found, confidence=confidence, limits=(*found.limits, reason))


def _restore_rows(
    bare: Unrecorded, rows: Sequence[Mapping[str, Any]], usual: int
) -> tuple[dict[str, Any], ...]:
    """The rows, those without a rank as of the usual one: each rank's moments are asked at once."""
    restored = [dict(row) for row in rows]
    of_rank: dict[int, list[tuple[dict[str, Any], str]]] = {}
    for row in restored:
        known = of_rank.setdefault(row.get("rank", usual), [])
        known += ((row, name) for name in _MOMENTS if isinstance(row.get(name), int))
    for rank, places in of_rank.items():
        moments = _restore(bare, [row[name] for row, name in places], rank)
        for (row, name), moment in zip(places, moments, strict=True):
            row[name] = moment
    return tuple(restored)


def _restore(bare: Unrecorded, moments: list[int], rank: int) -> list[int]:
    restored: list[int] = bare.run.restore(pl.Series(moments, dtype=pl.Int64), rank).to_list()
    return restored
