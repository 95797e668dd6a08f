"""Findings about the program without its recorder: where they are on the recorded timeline."""

from __future__ import annotations

from collections.abc import Mapping
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
        where["time_ranges"] = [_restore(bare, span, ranks[0]) for span in where["time_ranges"]]
    rows = tuple(_restore_row(bare, row, row.get("rank", ranks[0])) for row in found.rows)
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


def _restore_row(bare: Unrecorded, row: Mapping[str, Any], rank: int) -> dict[str, Any]:
    known = [name for name in _MOMENTS if isinstance(row.get(name), int)]
    return {**row, **dict(zip(known, _restore(bare, [row[n] for n in known], rank), strict=True))}


def _restore(bare: Unrecorded, moments: list[int], rank: int) -> list[int]:
    restored: list[int] = bare.run.restore(pl.Series(moments, dtype=pl.Int64), rank).to_list()
    return restored
