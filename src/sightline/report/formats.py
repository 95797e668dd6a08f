"""A small table as text for a person, or as data for a program."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import polars as pl

from sightline.errors import RequestError
from sightline.model.columns import Column
from sightline.text import fit_text
from sightline.units import format_bytes, format_count, format_ns, format_pct

FORMATS = ("table", "csv", "json", "parquet", "markdown")
TEXT_WIDTH = 60  # a kernel's template arguments can run to 10 kB


def write(frame: pl.DataFrame, columns: tuple[Column, ...], form: str, limit: int) -> bytes:
    """The table in one of FORMATS. `limit` > 0 cuts what is for a person, never data."""
    if form == "json":
        return (to_json(frame) + "\n").encode()
    if form == "csv":
        flat = frame.with_columns(
            pl.col(name).cast(pl.List(pl.String)).list.join(" ")
            for name, dtype in frame.schema.items()
            if isinstance(dtype, pl.List)
        )
        return flat.write_csv().encode()
    if form == "parquet":
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        return buffer.getvalue()
    shown = frame.head(limit) if limit > 0 else frame
    cells = [[_cell(c, v) for v in shown.get_column(c.name)] for c in columns]
    if form == "markdown":
        return _markdown(columns, cells).encode()
    if form == "table":
        return _table(columns, cells).encode()
    raise RequestError(f"there is no format '{form}'", why=f"there are {', '.join(FORMATS)}")


def to_json(frame: pl.DataFrame) -> str:
    """A JSON list of row objects; every number as it is, missing as null."""
    return json.dumps(frame.to_dicts(), ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    """What JSON has no form for, of a query's answer: decimals, moments, lengths, bytes."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def _cell(column: Column, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    # Moments are long numbers on the run's clock: as they are. Lengths are for reading.
    if isinstance(value, int | float):
        if column.unit == "ns" and not column.moment:
            return format_ns(value)
        if column.unit == "bytes":
            return format_bytes(value)
        if column.unit == "%":
            return format_pct(value)
        if isinstance(value, float):
            return f"{value:.2f}"
        is_key = column.is_id or column.joins is not None or column.name.endswith("_id")
        return str(value) if is_key or column.moment else format_count(value)
    if isinstance(value, pl.Series):
        return " ".join(map(str, value.to_list()))
    return fit_text(str(value), TEXT_WIDTH)


def _table(columns: tuple[Column, ...], cells: list[list[str]]) -> str:
    widths = [
        max([len(c.name), *map(len, column)]) for c, column in zip(columns, cells, strict=True)
    ]
    left = [c.dtype == pl.String for c in columns]

    def line(texts: list[str]) -> str:
        padded = [
            t.ljust(w) if is_left else t.rjust(w)
            for t, w, is_left in zip(texts, widths, left, strict=True)
        ]
        return "  ".join(padded).rstrip()

    rows = zip(*cells, strict=True)
    lines = [line([c.name for c in columns]), line(["-" * w for w in widths])]
    return "\n".join([*lines, *(line(list(row)) for row in rows)]) + "\n"


def _escape(text: str) -> str:
    """A cell's text, of which nothing becomes HTML or another cell."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("|", "\\|")


def _markdown(columns: tuple[Column, ...], cells: list[list[str]]) -> str:
    head = "| " + " | ".join(c.name for c in columns) + " |"
    align = (
        "|"
        + "|".join(" --- |"[:-2] + ("" if c.dtype == pl.String else ":") + " " for c in columns)
        + "|"
    )
    escaped = [[_escape(t) for t in column] for column in cells]
    rows = ["| " + " | ".join(row) + " |" for row in zip(*escaped, strict=True)]
    return "\n".join([head, align, *rows]) + "\n"
