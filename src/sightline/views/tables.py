"""A small table as text for a person, or as data for a program."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

import polars as pl

from sightline.core.model.columns import Column
from sightline.core.model.declare import Analysis
from sightline.core.text import fit_text, fit_texts, make_printable
from sightline.core.units import (
    format_bytes,
    format_count,
    format_flop,
    format_flop_rate,
    format_ns,
    format_pct,
    format_rate,
)
from sightline.errors import RequestError
from sightline.views.csv_text import encode_csv, flatten_values

FORMATS = ("table", "csv", "json", "parquet", "markdown")
TEXT_WIDTH = 60  # a kernel's template arguments can run to 10 kB
LEAST_TEXT = 20  # a text cut further says nothing
_NOTHING = ("-", "0", "0 ns", "0 B", "0.0 %")  # cells that are no news

# Numbers that a person reads with their unit, and its prefix.
_SCALED: dict[str, Callable[[float], str]] = {
    "bytes": format_bytes,
    "bytes/s": format_rate,
    "FLOP": format_flop,
    "FLOP/s": format_flop_rate,
    "%": format_pct,
}


@dataclass(frozen=True)
class Reading:
    """How a table is read by a person, and no program: what its texts are made for."""

    width: int | None = None  # columns of the window; None: as wide as it takes
    origin_ns: int | None = None  # what moments are counted from; None: the run's own clock
    labels: Mapping[str, str] = field(default_factory=dict)  # short names of kernels
    whole: bool = False  # texts are never cut


def put_worst_first(frame: pl.DataFrame, declared: Analysis) -> pl.DataFrame:
    """The rows of an analysis as a person is shown them: the worst first, where it says which."""
    if declared.worst is None:
        return frame
    return frame.sort(declared.worst, descending=True, nulls_last=True, maintain_order=True)


def write(
    frame: pl.DataFrame,
    columns: tuple[Column, ...],
    form: str,
    limit: int,
    reading: Reading | None = None,
    *,
    exact: bool = False,
) -> bytes:
    """The table in one of FORMATS. `limit` > 0 cuts what is for a person, never data.

    CSV has texts that no spreadsheet runs, unless `exact`. For a person, a duration has its unit,
    and its column's name none; a moment is ms. Columns that do not fit into the reading's width are
    left out, and said below.
    """
    reading = reading or Reading()
    if form == "json":
        return (to_json(frame) + "\n").encode()
    if form == "csv":
        return encode_csv(frame, exact=exact)
    if form == "parquet":
        buffer = io.BytesIO()
        plain = [flatten_values(c) if c.dtype == pl.Object else c for c in frame]
        pl.DataFrame(plain).write_parquet(buffer)
        return buffer.getvalue()
    shown = frame.head(limit) if limit > 0 else frame
    if form in ("table", "markdown"):
        units = {c.unit_in for c in columns}
        columns = tuple(c for c in columns if c.name not in units)
        cells = [_list_cells(c, shown, reading) for c in columns]
        heads = [_head(c, reading) for c in columns]
        if form == "markdown":
            return _markdown(columns, heads, cells).encode()
        if reading.width is None:
            return _table(columns, heads, cells).encode()
        if frame.height == 1 and _measure_width(heads, cells) > reading.width:
            return _list_row(heads, cells).encode()
        return _table_within(columns, heads, cells, reading.width).encode()
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


def _head(column: Column, reading: Reading) -> str:
    """A column's name; of times without `_ns`, since what stands below it carries its unit."""
    if column.unit != "ns":
        return column.name
    if not column.moment:
        return column.name.removesuffix("_ns").removesuffix(" (ns)")
    return column.name if reading.origin_ns is None else f"{column.name.removesuffix('_ns')} (ms)"


def _list_row(heads: list[str], cells: list[list[str]]) -> str:
    """The only row of a table that is too wide, a line for each of its values."""
    width = max(map(len, heads))
    return "".join(f"{head:<{width}}  {cell}\n" for head, (cell,) in zip(heads, cells, strict=True))


def _table_within(
    columns: tuple[Column, ...], heads: list[str], cells: list[list[str]], width: int
) -> str:
    """The table for a window of so many columns, with what is left out said below it."""
    shortest = _cut_texts(columns, cells, LEAST_TEXT)
    every = range(len(columns))
    kept = list(every)
    for i in _order_by_worth(columns, cells)[:-1]:
        if _measure_width([heads[k] for k in kept], [shortest[k] for k in kept]) <= width:
            break
        kept.remove(i)
    dropped = [i for i in every if i not in kept]
    columns = tuple(columns[k] for k in kept)
    table_heads, shown = [heads[k] for k in kept], [cells[k] for k in kept]
    text = _table(columns, table_heads, _narrow(columns, table_heads, shown, width))
    return text + _say_dropped(dropped, heads, cells, width)


def _order_by_worth(columns: tuple[Column, ...], cells: list[list[str]]) -> list[int]:
    """The columns, first those that a person misses least: what is no news, then numbers of rows.

    Shares go last, and the first time, which is the sum: they are what a table is read for.
    Of equals the one nearest to the middle, or a little behind it, comes first: what a table is
    about and the sums stand at its left, what they come to at its right.
    """
    middle = 0.6 * len(columns)
    sums = next((i for i, c in enumerate(columns) if c.unit == "ns" and not c.moment), None)

    def worth(i: int) -> int:
        if _is_same(cells[i]):
            return 0
        if _is_key(columns[i]):
            return 1
        return 3 if columns[i].unit == "%" or i == sums else 2

    return sorted(range(len(columns)), key=lambda i: (worth(i), abs(i - middle)))


def _is_same(column: list[str]) -> bool:
    """Whether a column says no more than its one value, or that there is nothing."""
    return len(set(column)) == 1 and (len(column) > 1 or column[0] in _NOTHING)


def _say_dropped(dropped: list[int], heads: list[str], cells: list[list[str]], width: int) -> str:
    """Lines about the columns that are not in the table."""
    # No line ends between a name and its value.
    same = [
        f"{heads[i]} {cells[i][0]}".replace(" ", "\N{NO-BREAK SPACE}")
        for i in dropped
        if _is_same(cells[i])
    ]
    others = [heads[i] for i in dropped if not _is_same(cells[i])]
    lines = []
    if same:
        lines.append(f"in every row: {', '.join(same)}")
    if others:
        lines.append(f"no room for {', '.join(others)}: pipe the table into  less -S")
    text = "".join(textwrap.fill(line, width, subsequent_indent="  ") + "\n" for line in lines)
    return text.replace("\N{NO-BREAK SPACE}", " ")


def _measure_width(heads: list[str], cells: list[list[str]]) -> int:
    return sum(_measure_columns(heads, cells)) + 2 * (len(heads) - 1)


def _measure_columns(heads: list[str], cells: list[list[str]]) -> list[int]:
    return [max([len(h), *map(len, column)]) for h, column in zip(heads, cells, strict=True)]


def _cut_texts(columns: tuple[Column, ...], cells: list[list[str]], room: int) -> list[list[str]]:
    """The cells with their texts cut from their middle."""
    return [
        fit_texts(column, room) if c.dtype == pl.String else column
        for c, column in zip(columns, cells, strict=True)
    ]


def _narrow(
    columns: tuple[Column, ...], heads: list[str], cells: list[list[str]], width: int
) -> list[list[str]]:
    """The cells with texts cut until the table fits, no more than it takes."""
    for room in range(TEXT_WIDTH, LEAST_TEXT, -4):
        shorter = _cut_texts(columns, cells, room)
        if _measure_width(heads, shorter) <= width:
            return shorter
    return _cut_texts(columns, cells, LEAST_TEXT)


def _list_cells(column: Column, shown: pl.DataFrame, reading: Reading) -> list[str]:
    """A column's cells; where each row has a unit of its own, with that."""
    values = shown.get_column(column.name)
    if column.unit_in is None:
        return [_cell(column, v, reading) for v in values]
    cells = []
    for value, unit in zip(values, shown.get_column(column.unit_in), strict=True):
        text = _cell(replace(column, unit=unit), value, reading)
        is_told = value is None or unit is None or unit in (*_SCALED, "ns")
        cells.append(text if is_told else f"{text} {unit}")
    return cells


def _cell(column: Column, value: object, reading: Reading) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    # Moments are exact: to the nanosecond, behind the window's start where that is known.
    if isinstance(value, int) and column.moment and reading.origin_ns is not None:
        after = value - reading.origin_ns
        sign = "-" if after < 0 else ""
        return f"{sign}{abs(after) // 1_000_000:,}.{abs(after) % 1_000_000:06d}"
    if isinstance(value, int | float):
        if column.unit == "ns" and not column.moment:
            return format_ns(value)
        if column.unit in _SCALED:
            return _SCALED[column.unit](value)
        if isinstance(value, float):
            return f"{value:.2f}"
        return str(value) if _is_key(column) or column.moment else format_count(value)
    if isinstance(value, pl.Series):
        return " ".join(map(str, value.to_list()))
    text = str(value)
    if reading.whole:
        return make_printable(text)
    return fit_text(reading.labels.get(text, text), TEXT_WIDTH)


def _is_key(column: Column) -> bool:
    """Whether a column's numbers only say which row of a table is meant."""
    return column.is_id or column.joins is not None or column.name.endswith("_id")


def _table(columns: tuple[Column, ...], heads: list[str], cells: list[list[str]]) -> str:
    widths = _measure_columns(heads, cells)
    left = [c.dtype == pl.String for c in columns]

    def line(texts: list[str]) -> str:
        padded = [
            t.ljust(w) if is_left else t.rjust(w)
            for t, w, is_left in zip(texts, widths, left, strict=True)
        ]
        return "  ".join(padded).rstrip()

    rows = zip(*cells, strict=True)
    lines = [line(heads), line(["-" * w for w in widths])]
    return "\n".join([*lines, *(line(list(row)) for row in rows)]) + "\n"


def _escape(text: str) -> str:
    """A cell's text, of which nothing becomes HTML or another cell."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("|", "\\|")


def _markdown(columns: tuple[Column, ...], heads: list[str], cells: list[list[str]]) -> str:
    head = "| " + " | ".join(heads) + " |"
    align = (
        "|"
        + "|".join(" --- |"[:-2] + ("" if c.dtype == pl.String else ":") + " " for c in columns)
        + "|"
    )
    escaped = [[_escape(t) for t in column] for column in cells]
    rows = ["| " + " | ".join(row) + " |" for row in zip(*escaped, strict=True)]
    return "\n".join([head, align, *rows]) + "\n"
