"""Values of large JSON documents as columns, without a Python object for each."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sightline._native import read_json
from sightline.core.model.declare import Quality
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.formats._json import parse_json
from sightline.formats._lines import read_utf8

_STEP = re.compile(r"\[\d*\]|[^.\[\]]+")
_TYPES = {"int": pl.Int64, "float": pl.Float64, "text": pl.String, "length": pl.Int64}


@dataclass(frozen=True)
class Wanted:
    """A table: a row for each value at `rows`, such as `shared.frames[]`.

    `cells` are paths within the row, each with its kind behind a blank: `[3] text`, ` length`.
    Kinds: int (64 bits, no point or exponent), float (any finite number), text, length (of a list),
    ints (a list of integers). What is of another type is null.
    """

    rows: str
    cells: Mapping[str, str]


@dataclass(frozen=True)
class JsonTable:
    """What was found at the places of a table.

    rows: `parent`, the row of the table around it, and the cells. lists: of each list of integers
    its length in each row, null where it is none, and the items of all rows.
    """

    rows: pl.DataFrame
    lists: dict[str, tuple[pl.Series, pl.Series]]


def read_tables(
    source: Source, quality: list[Quality], wanted: Mapping[str, Wanted]
) -> dict[str, JsonTable]:
    """The tables of a document; of a damaged one what stands before the damage, and a note.

    Raises ValueError where nothing can be made of it, RecursionError where it is nested too deeply.
    """
    data = read_utf8(source, quality)
    given = [
        (split_path(table.rows), [(name, *_split_cell(cell)) for name, cell in table.cells.items()])
        for table in wanted.values()
    ]
    found = read_json(data, given)
    if found is None:  # damaged, or with what JSON does not have and Python reads
        document = parse_json(data.decode(errors="replace"), quality)
        return {name: tabulate(document, table) for name, table in wanted.items()}
    parts, named = found
    texts = pl.DataFrame(named).get_column("text")
    tables = {}
    for (name, table), (rows, lists) in zip(wanted.items(), parts, strict=True):
        kinds = {cell: _split_cell(told)[1] for cell, told in table.cells.items()}
        columns = [
            texts.gather(column).alias(column.name) if kinds.get(column.name) == "text" else column
            for column in pl.DataFrame(rows)
        ]
        tables[name] = JsonTable(
            pl.DataFrame(columns),
            {
                cell: (pl.DataFrame(lengths)["length"], pl.DataFrame(items)["item"])
                for cell, (lengths, items) in lists.items()
            },
        )
    return tables


def split_path(path: str) -> list[str]:
    """The steps of a path: keys, `[]` for all items, `[3]` for one."""
    return _STEP.findall(path)


def _split_cell(told: str) -> tuple[list[str], str]:
    path, _, kind = told.rpartition(" ")
    return split_path(path), kind


@dataclass
class _Rows:
    """Rows that are being collected."""

    cells: list[tuple[str, list[str], str]]
    columns: dict[str, list[Any]] = field(default_factory=dict)
    items: dict[str, list[int | None]] = field(default_factory=dict)


def tabulate(document: Any, wanted: Wanted) -> JsonTable:
    """A table of a document that Python has read; `parent` as if each list around were a table."""
    cells = [(name, *_split_cell(told)) for name, told in wanted.cells.items()]
    columns: dict[str, list[Any]] = {"parent": [], **{name: [] for name, _, _ in cells}}
    items: dict[str, list[int | None]] = {name: [] for name, _, kind in cells if kind == "ints"}
    for parent, row in _list_rows(document, split_path(wanted.rows)):
        columns["parent"].append(parent)
        for name, path, kind in cells:
            value = _find(row, path)
            columns[name].append(_make_cell(value, "length" if kind == "ints" else kind))
            if kind == "ints" and isinstance(value, list):
                items[name] += (_make_cell(item, "int") for item in value)
    types = {name: _TYPES.get(kind, pl.Int64) for name, _, kind in cells}
    frame = pl.DataFrame(columns, schema={"parent": pl.Int64, **types})
    return JsonTable(
        frame.drop(items),
        {name: (frame[name], pl.Series(found, dtype=pl.Int64)) for name, found in items.items()},
    )


def _list_rows(
    value: Any, path: list[str], parent: int | None = None
) -> Iterator[tuple[int | None, Any]]:
    """Each value at the path, with the number of the list's item that it is in."""
    level: list[tuple[int | None, Any]] = [(parent, value)]
    for number, step in enumerate(path):
        if step == "[]":
            is_outer = "[]" in path[:number]
            inside: list[tuple[int | None, Any]] = []
            for place, (_, one) in enumerate(level):
                listed = one if isinstance(one, list) else []
                inside += ((place if is_outer else None, item) for item in listed)
            level = inside
        else:
            level = [(above, _find(one, [step])) for above, one in level]
    return iter(level)


_ABSENT = object()


def _find(value: Any, path: list[str]) -> Any:
    for step in path:
        if step.startswith("["):
            at = int(step[1:-1])
            value = value[at] if isinstance(value, list) and at < len(value) else _ABSENT
        else:
            value = value.get(step, _ABSENT) if isinstance(value, dict) else _ABSENT
    return value


def _make_cell(value: Any, kind: str) -> Any:
    if kind == "text":
        return replace_surrogates(value) if isinstance(value, str) else None
    if kind == "length":
        return len(value) if isinstance(value, list) else None
    if kind == "int":
        return value if type(value) is int and abs(value) <= INT64_MAX else None
    if type(value) is int:
        value = float(value) if abs(value) < 10**308 else math.inf
    return value if type(value) is float and math.isfinite(value) else None
