"""The pieces that panels are made of. web/src/report/blocks.ts draws each kind.

Numbers go to the page as they are, with their unit; the page writes them as core/units.py does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import polars as pl

from sightline.core.kernel_labels import label_kernels
from sightline.core.model.columns import Column
from sightline.core.page.declare import Block
from sightline.core.text import make_printable
from sightline.core.units import format_several

# Rows that a table of the page holds. More make no person wiser, and each costs bytes.
MAX_ROWS = 2_000
# Points of one line: twice what a wide screen shows.
MAX_POINTS = 1_500


def make_text(words: str, role: str = "note") -> Block:
    """A paragraph: 'lead' is the answer, 'note' says what a reader must know."""
    return {"kind": "text", "text": make_printable(words), "role": role}


def make_group(title: str, inner: Sequence[Block]) -> Block:
    """Blocks that are folded away under a title until they are asked for."""
    return {"kind": "group", "title": title, "blocks": list(inner)}


def make_table(
    title: str,
    frame: pl.DataFrame,
    columns: Sequence[Column],
    *,
    origin_ns: int = 0,
    sort: str | None = None,
    action: str | None = None,
    hide: Sequence[str] = (),
    more: str = "",
    heat: Sequence[str] = (),
    limit: int = MAX_ROWS,
) -> Block:
    """A table that sorts and filters.

    `action` says what a click on a row does: 'kernel' shows the instances of the name, 'range'
    shows start_ns to end_ns in the timeline. `more` is the command that prints all rows where the
    page holds only the first `limit`. Columns of `heat` have their values as bars as well, of
    the column's largest, and a single row's of 100 %.
    """
    shown = frame.head(limit)
    parts = [
        _column(shown, c, origin_ns)
        for c in columns
        if c.name in frame.columns and c.name not in hide and shown.get_column(c.name).count()
    ]
    for part in parts:
        if part["name"] in heat:
            part["heat"] = True
    block: Block = {
        "kind": "table",
        "title": title,
        "columns": parts,
        "sort": sort,
        "action": action,
        "rows": shown.height,
        "of": frame.height,
        "more": more,
    }
    shown_moments = {part["name"] for part in parts if part["unit"] == "moment"}
    if action == "range" and not {"start_ns", "end_ns"} <= shown_moments:
        block["from"] = (shown.get_column("start_ns") - origin_ns).to_list()
        block["to"] = (shown.get_column("end_ns") - origin_ns).to_list()
    return block


def _column(frame: pl.DataFrame, column: Column, origin_ns: int) -> dict[str, Any]:
    values = frame.get_column(column.name)
    name = column.name
    unit = "moment" if column.moment else column.unit or ""
    if name == "rank" or name.endswith("_id") or column.joins is not None:
        unit = "id"
    part: dict[str, Any] = {
        "name": name,
        "label": _label(name),
        "doc": column.doc,
        "unit": unit,
    }
    if column.dtype in (pl.String, pl.Boolean) or isinstance(column.dtype, pl.List):
        part["text"] = True
    if column.dtype == pl.String:
        part["values"] = [None if v is None else make_printable(v) for v in values]
        if name in ("name", "after", "kernel", "op"):
            labels = label_kernels(v for v in values if v is not None)
            part["labels"] = [None if v is None else make_printable(labels[v]) for v in values]
    elif column.moment:
        part["values"] = (values - origin_ns).to_list()
    elif isinstance(column.dtype, pl.List):
        part["values"] = [None if v is None else " ".join(map(str, v)) for v in values.to_list()]
    else:
        part["values"] = [_finite(v) for v in values.to_list()]
    return part


def make_plain_table(title: str, frame: pl.DataFrame, limit: int) -> Block:
    """A table of columns that nobody declared: as they are, in their order."""
    columns, kept = [], []
    for name, values in zip(frame.columns, frame.get_columns(), strict=True):
        shown = values.cast(pl.Float64) if values.dtype.is_decimal() else values
        if not (values.dtype.is_numeric() or values.dtype in (pl.String, pl.Boolean)):
            shown = pl.Series([None if v is None else str(v) for v in values], dtype=pl.String)
        elif values.dtype.is_integer() and _exceeds_double(values):
            shown = values.cast(pl.String)
        kept.append(shown.alias(name))
        columns.append(Column(name, shown.dtype, name, unit=None))
    block = make_table(title, pl.DataFrame(kept), columns, limit=limit)
    for part in block["columns"]:
        part["label"] = part["name"]
        part.pop("labels", None)
        if "text" not in part and all(v is None or float(v).is_integer() for v in part["values"]):
            part["unit"] = "id"  # digits as they are
    return block


def _exceeds_double(values: pl.Series) -> bool:
    """Whether some integer is beyond what the page's numbers hold exactly."""
    return bool((values.abs() > 2**53).any())


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN; a number that is none is missing."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _label(name: str) -> str:
    words = {"device_id": "device", "stream_id": "stream"}.get(name, name)
    for ending in ("_ns", "_pct", "_gb_per_s"):
        words = words.removesuffix(ending)
    share = " %" if name.endswith("_pct") else ""
    return words.replace("_", " ").replace("gb per s", "rate") + share


PARTS = (
    ("compute", "compute"),
    ("exposed_comm", "exposed communication"),
    ("exposed_copy", "exposed copies"),
    ("unknown", "unknown"),
    ("idle", "idle"),
)


def make_shares(
    title: str, frame: pl.DataFrame, labels: Sequence[str], *, whole: str, same_scale: bool
) -> Block:
    """Bars of compute, exposed communication, exposed copies and idle, one a row.

    What is unknown is a part of its own, where there is some.

    With `same_scale`, a bar is as long as its whole; else every bar is as wide as the page.
    """
    unknown = "unknown_ns" in frame.columns and frame.get_column("unknown_ns").sum() > 0
    parts = [part for part in PARTS if part[0] != "unknown" or unknown]
    return {
        "kind": "shares",
        "title": title,
        "parts": [label for _, label in parts],
        "classes": [name for name, _ in parts],
        "labels": [make_printable(label) for label in labels],
        "whole": frame.get_column(whole).to_list(),
        "values": [frame.get_column(f"{name}_ns").to_list() for name, _ in parts],
        "same_scale": same_scale,
    }


def make_lines(
    title: str,
    frame: pl.DataFrame | pl.LazyFrame,
    time: str,
    values: dict[str, str],
    origin_ns: int,
    unit: str,
) -> Block:
    """A plot over time; `values` is column -> label.

    Many points become their lowest and highest of equal slices of time, and the plot says so. Of a
    lazy frame they are never all in memory.
    """
    series = []
    count = 0
    for column, label in values.items():
        points = frame.lazy().select(t=pl.col(time) - origin_ns, v=pl.col(column).cast(pl.Float64))
        short, height = reduce_series(points.drop_nulls().filter(pl.col("v").is_finite()))
        if short.is_empty():
            continue
        count = max(count, height)
        series.append(
            {
                "label": make_printable(label),
                "t": short.get_column("t").to_list(),
                "low": short.get_column("low").to_list(),
                "high": short.get_column("high").to_list(),
            }
        )
    note = (
        f"{format_several(count, 'value')}, drawn as lowest to highest of {MAX_POINTS:,} equal "
        "slices of time"
        if count > MAX_POINTS
        else ""
    )
    return {
        "kind": "lines",
        "title": make_printable(title),
        "unit": unit,
        "series": series,
        "note": note,
    }


def reduce_series(points: pl.LazyFrame) -> tuple[pl.DataFrame, int]:
    """Points (t, v) as t, low, high: as they are, or one a slice of time; and their number."""
    extent = points.select(pl.len(), first=pl.col("t").min(), last=pl.col("t").max())
    count, first, last = extent.collect(engine="streaming").row(0)
    if count <= MAX_POINTS:
        whole = points.collect().sort("t", maintain_order=True)
        return whole.select("t", low="v", high="v"), count
    width = max(1, -(-(last - first + 1) // MAX_POINTS))
    slices = (
        points.group_by(slice=(pl.col("t") - first) // width)
        .agg(t=pl.col("t").min(), low=pl.col("v").min(), high=pl.col("v").max())
        .collect(engine="streaming")
    )
    return slices.sort("slice").select("t", "low", "high"), count
