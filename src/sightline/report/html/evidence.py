"""Where in the run a finding happens: ranges to show in the timeline, and a sparkline."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline import registry
from sightline.algebra.intervals import measure_cover_until
from sightline.errors import MissingDataError
from sightline.model.run import Run
from sightline.timeline.classes import is_communication
from sightline.timeline.copies import name_copy_cause

BUCKETS = 60
MAX_RANGES = 200
_SCHEMA = {"start_ns": pl.Int64, "end_ns": pl.Int64}


def find_evidence(run: Run, finding: dict[str, Any]) -> pl.DataFrame:
    """All time that a finding is about, as far as it says or can be looked up: start, end."""
    where = finding["where"]
    if run.rows("device_ops"):
        for found in (_of_cause(run, where), _of_kernel(run, where), _of_rule(run, finding)):
            if found is not None and found.height:
                return found
    given = [r for r in where.get("time_ranges") or [] if len(r) == 2]
    given += [
        (row["start_ns"], row["end_ns"])
        for row in finding["rows"]
        if isinstance(row.get("start_ns"), int) and isinstance(row.get("end_ns"), int)
    ]
    return pl.DataFrame(sorted({(int(a), int(b)) for a, b in given}), schema=_SCHEMA, orient="row")


def _of_cause(run: Run, where: dict[str, Any]) -> pl.DataFrame | None:
    cause = where.get("cause")
    if not cause:
        return None
    try:
        gaps = run.ask("idle_gaps")
    except MissingDataError:
        return None
    gaps = gaps.filter(pl.col("cause") == cause)
    if where.get("ranks"):
        gaps = gaps.filter(pl.col("rank").is_in(where["ranks"]))
    return gaps.select("start_ns", "end_ns")


def _of_kernel(run: Run, where: dict[str, Any]) -> pl.DataFrame | None:
    name = where.get("kernel")
    if not name:
        return None
    ops = run.table("device_ops").filter(pl.col("name") == name)
    return ops.select("start_ns", "end_ns")


def _of_rule(run: Run, finding: dict[str, Any]) -> pl.DataFrame | None:
    """Where no times are given: the gaps and copies of the rule's causes, or all communication."""
    if finding["where"].get("time_ranges"):
        return None
    name = finding["rule"].replace("-", "_")
    family = registry.family_of("rules", name)
    if family is None:
        return None
    ops = run.table("device_ops")
    if family.name == "communication":
        return ops.filter(is_communication(pl.col("name"))).select("start_ns", "end_ns")
    causes = registry.load("rules", name).RULE.causes
    if not causes:
        return None
    gaps = run.ask("idle_rules").filter(pl.col("rule").is_in(causes))
    copies = ops.filter(name_copy_cause().is_in(causes))
    return pl.concat([frame.select("start_ns", "end_ns") for frame in (gaps, copies)])


def pack_evidence(found: pl.DataFrame, span: tuple[int, int]) -> dict[str, Any]:
    """What the page gets: the longest ranges in order of time, and a share per slice of the run."""
    if found.is_empty():
        return {"ranges": [], "spark": [], "count": 0}
    origin, end = span
    longest = (
        found.with_columns(n=pl.col("end_ns") - pl.col("start_ns"))
        .sort("n", "start_ns", descending=[True, False])
        .head(MAX_RANGES)
        .sort("start_ns")
    )
    ranges = longest.select(a=pl.col("start_ns") - origin, b=pl.col("end_ns") - origin).rows()
    return {"ranges": ranges, "spark": _spark(found, origin, end), "count": found.height}


def _spark(found: pl.DataFrame, origin: int, end: int) -> list[float]:
    """Covered share of each of BUCKETS equal slices of the run, 0 to 1."""
    width = max(1, -(-(end - origin) // BUCKETS))
    edges = pl.DataFrame({"at": [origin + i * width for i in range(BUCKETS + 1)]})
    one = pl.lit(0, pl.Int8).alias("all")
    until = measure_cover_until(edges.with_columns(one), "at", found.with_columns(one), ["all"])
    shares = (until.diff().drop_nulls() / width).to_list()
    return [round(s, 4) for s in shares]
