"""A range that many parts of a program share: whose it was in these gaps, and who launches nothing.

A benchmark calls each variant's loop `Steps`: which variant is slow stands in the range around it.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.model.run import Run
from sightline.core.text import fit_text
from sightline.core.units import format_count, format_ns
from sightline.timeline.host_ranges import find_host_ancestor

_TOP = 3
_WIDTH = 48  # of a name


class Variants(NamedTuple):
    """`lines` of evidence; how many ranges of these gaps launch `nothing`, of `all` of the name."""

    lines: list[str]
    nothing: int
    all: int


def find_variants(run: Run, name: str | None, gaps: pl.DataFrame) -> Variants | None:
    """What these gaps' ranges of one name lie in, where that is of several names; else None.

    `gaps` are rows of idle_rules: `host_op_id`, `duration_ns`, `host_op`.
    """
    if name is None:
        return None
    host = run.table("host_ops", ["host_op_id", "parent_id", "layer", "name"])
    ranges = host.filter(pl.col("layer") == "annotation")
    mine = ranges.filter(pl.col("name").cast(pl.String) == name)
    inside = gaps.filter(pl.col("host_op_id").is_in(mine.get_column("host_op_id").implode()))
    if inside.is_empty():
        return None
    parents = _name_parents(host, ranges, inside)
    each = (
        parents.drop_nulls("parent")
        .group_by("parent")
        .agg(pl.col("duration_ns").sum())
        .sort("duration_ns", "parent", descending=[True, False])
    )
    if each.height < 2:
        return None
    said = [f"{fit_text(parent, _WIDTH)} {format_ns(ns)}" for parent, ns in each.head(_TOP).rows()]
    more = f" and {each.height - _TOP} more" if each.height > _TOP else ""
    launches = run.table("device_ops", ["launch_id"]).get_column("launch_id").drop_nulls().unique()
    busy = find_host_ancestor(run, launches, mine.get_column("host_op_id")).drop_nulls().unique()
    held = inside.get_column("host_op_id").unique()
    idle = held.len() - int(held.is_in(busy.implode()).sum())
    lines = [f"these lie in  {', '.join(said)}{more}"]
    if idle and busy.len():
        lines.append(
            f"{format_count(idle)} of {format_count(mine.height)} × {fit_text(name, _WIDTH)} "
            "launch nothing on the GPU: the host does the work there"
        )
    return Variants(lines, idle if busy.len() else 0, mine.height)


def _name_parents(host: pl.DataFrame, ranges: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """The gaps with the name of the range around theirs, as `parent`."""
    ids = host.get_column("host_op_id")
    up = host.get_column("parent_id").gather(find_rows(ids, gaps.get_column("host_op_id")))
    known = ranges.get_column("host_op_id")
    names = ranges.get_column("name").cast(pl.String).gather(find_rows(known, up))
    return gaps.select("duration_ns", parent=names)
