"""Where in the run a finding happens: ranges to show in the timeline, and a sparkline."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core import registry
from sightline.core.algebra.intervals import measure_cover_until
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.timeline.classes import is_communication
from sightline.timeline.copies import list_copies

BUCKETS = 60
# A page holds so many places of one finding: 2 to 3 bytes each, packed. More are the longest ones,
# and the page says so.
MAX_PLACES = 50_000
_SCHEMA = {"start_ns": pl.Int64, "end_ns": pl.Int64, "rank": pl.Int64}
_PLACE = list(_SCHEMA)


def find_evidence(run: Run, finding: dict[str, Any]) -> pl.DataFrame:
    """All time that a finding is about, as far as it says or can be looked up.

    One row a place: start_ns, end_ns and rank, which is null where it is not known.
    """
    where = finding["where"]
    if run.rows("device_ops"):
        for found in (_of_cause(run, where), _of_kernel(run, where), _of_rule(run, finding)):
            if found is not None and found.height:
                return found
    ranks = where.get("ranks") or []
    rank = ranks[0] if len(ranks) == 1 else None
    given = {(int(r[0]), int(r[1])): rank for r in where.get("time_ranges") or [] if len(r) == 2}
    for row in finding["rows"]:
        if isinstance(row.get("start_ns"), int) and isinstance(row.get("end_ns"), int):
            given[row["start_ns"], row["end_ns"]] = row.get("rank", rank)
    rows = [(a, b, r) for (a, b), r in sorted(given.items(), key=lambda item: item[0])]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


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
    return gaps.select(_PLACE)


def _of_kernel(run: Run, where: dict[str, Any]) -> pl.DataFrame | None:
    name = where.get("kernel")
    if not name:
        return None
    ops = run.table("device_ops", [*_PLACE, "name"])
    return ops.filter(pl.col("name") == name).select(_PLACE)


def _of_rule(run: Run, finding: dict[str, Any]) -> pl.DataFrame | None:
    """Where no times are given: the gaps and copies of the rule's causes, or all communication."""
    if finding["where"].get("time_ranges"):
        return None
    name = finding["rule"].replace("-", "_")
    subject = registry.subject_of("rules", name)
    if subject is None:
        return None
    if subject.name == "communication":
        ops = run.table("device_ops", [*_PLACE, "name"])
        return ops.filter(is_communication(pl.col("name"))).select(_PLACE)
    causes = registry.load("rules", name).RULE.causes
    if not causes:
        return None
    gaps = run.ask("idle_rules").filter(pl.col("rule").is_in(causes))
    return pl.concat([frame.select(_PLACE) for frame in (gaps, list_copies(run, causes))])


def choose_places(found: pl.DataFrame, most: int = MAX_PLACES) -> pl.DataFrame:
    """Places in order of time, the longest `most` where there are more."""
    return (
        found.with_columns(n=pl.col("end_ns") - pl.col("start_ns"))
        .sort("n", "start_ns", descending=[True, False])
        .head(most)
        .sort("start_ns", "end_ns", maintain_order=True)
        .drop("n")
    )


def pack_places(
    found: pl.DataFrame, span: tuple[int, int], most: int = MAX_PLACES
) -> dict[str, Any]:
    """Places in order of time as the page unpacks them, the longest `most` where there are more.

    `count` is how many there are; `starts` are counted from the place before, the first from the
    begin of the run; `ranks` are plus 1, 0 where one is not known, and are there only where the
    ranks are known and differ.
    """
    longest = choose_places(found, most)
    starts = longest.get_column("start_ns") - span[0]
    packed = {
        "count": found.height,
        "starts": starts.diff().fill_null(starts[0] if starts.len() else 0).to_list(),
        "lengths": longest.select(pl.col("end_ns") - pl.col("start_ns")).to_series().to_list(),
    }
    if has_ranks(longest):
        packed["ranks"] = (longest.get_column("rank") + 1).fill_null(0).to_list()
    return packed


def has_ranks(places: pl.DataFrame) -> bool:
    """Whether the ranks of places are known and differ."""
    ranks = places.get_column("rank")
    return ranks.null_count() < ranks.len() and ranks.n_unique() > 1


def measure_spark(found: pl.DataFrame, span: tuple[int, int]) -> list[float]:
    """The share of each slice of the run that a finding's places cover; empty without places."""
    return [] if found.is_empty() else _spark(found, *span)


def _spark(found: pl.DataFrame, origin: int, end: int) -> list[float]:
    """Covered share of each of BUCKETS equal slices of the run, 0 to 1."""
    width = max(1, -(-(end - origin) // BUCKETS))
    edges = pl.DataFrame({"at": [origin + i * width for i in range(BUCKETS + 1)]})
    one = pl.lit(0, pl.Int8).alias("all")
    until = measure_cover_until(edges.with_columns(one), "at", found.with_columns(one), ["all"])
    shares = (until.diff().drop_nulls() / width).to_list()
    return [round(s, 4) for s in shares]
