"""Whether what a store's run.json says of a recording is of the declared types.

Stores come from strangers, too: whoever reads the facts may rely on their types.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.columns import Table
from sightline.core.model.tables import load_table
from sightline.core.units import INT64_MAX

_SEVERITIES = ("info", "warning", "error")


def check_facts(facts: Any) -> None:
    """Raise ValueError, KeyError or TypeError where a recording's facts are not what they must be.

    Facts that are not known are left alone: a later version may have more.
    """
    rank = facts["rank"]
    _demand(_is_count(rank), "rank")
    rows = facts["rows"]
    _demand(isinstance(rows, dict) and all(map(_is_count, rows.values())), "rows")
    _check_row(facts, load_table("recordings"))
    _demand("content" in facts, "content")  # or no answer could say what it is about
    quality = facts.get("quality", [])
    _demand(isinstance(quality, list), "quality")
    for row in quality:
        _demand(isinstance(row, dict) and row.get("severity") in _SEVERITIES, "quality")
        _demand(isinstance(row.get("kind"), str) and isinstance(row.get("text"), str), "quality")
        _check_row(row, load_table("quality"))
    constants = facts.get("constants", {})
    _demand(isinstance(constants, dict), "constants")
    for table, values in constants.items():
        _demand(isinstance(values, dict), f"constants of {table}")
        known = load_table(table).schema if values else {}
        for name, value in values.items():
            _demand(name in known and _fits(value, known[name]), f"{name} of {table}")
    layers = facts.get("layers", [])
    _demand(isinstance(layers, list) and all(isinstance(x, str) for x in layers), "layers")
    _demand(isinstance(facts.get("process"), str | None), "process")
    _demand(isinstance(facts.get("own"), dict | None), "own")
    _demand(isinstance(facts.get("of_host"), bool | None), "of_host")


def _check_row(row: dict[str, Any], table: Table) -> None:
    # The run gives a recording its number, and says the path where none is known.
    for name, dtype in table.schema.items():
        _demand(row.get(name) is None or _fits(row[name], dtype), name)


def _fits(value: Any, dtype: Any) -> bool:
    """Whether a value of JSON can stand in a column."""
    if dtype == pl.String:
        return isinstance(value, str)
    if dtype == pl.Boolean:
        return isinstance(value, bool)
    if type(value) is int:
        return -INT64_MAX - 1 <= value <= INT64_MAX
    return dtype == pl.Float64 and isinstance(value, float)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= INT64_MAX


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} is not what it must be")
