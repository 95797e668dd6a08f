"""A table as CSV: numbers as they are, missing as an empty field, texts that no spreadsheet runs.

A kernel's name comes from whoever wrote the program, and `=HYPERLINK("http://…")` in a cell is a
formula to a spreadsheet that opens the file.
"""

from __future__ import annotations

import json

import polars as pl

# What OWASP's "CSV Injection" lists: with one of these a cell begins that is calculated, also after
# a tab or a line end, which are left out as the file is opened; the last four as East Asian
# keyboards give them. An apostrophe before it makes a text of it, in all spreadsheets.
_FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"  # such a text calculates nothing
_GUARD = "'"


def encode_csv(frame: pl.DataFrame, *, exact: bool = False) -> bytes:
    """The table with its head. Texts that begin as a formula get an apostrophe, unless `exact`.

    Lists are written with a space between their items, what is nested deeper as JSON.
    """
    flat = frame.select(_flatten(column) for column in frame)
    if not exact:
        flat = flat.with_columns(_guard(pl.col(pl.String))).rename(_guard_heads(flat.columns))
    return flat.write_csv().encode()


def _guard(text: pl.Expr) -> pl.Expr:
    is_formula = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
    return pl.when(is_formula).then(pl.lit(_GUARD) + text).otherwise(text).name.keep()


def _guard_heads(names: list[str]) -> dict[str, str]:
    """Heads are a query's, and may be a recording's: those that change."""
    guarded = pl.Series(names, dtype=pl.String).to_frame("name").select(_guard(pl.col("name")))
    pairs = zip(names, guarded.to_series(), strict=True)
    return {name: safe for name, safe in pairs if safe != name and safe not in names}


def _flatten(column: pl.Series) -> pl.Series:
    """A column of plain values or texts."""
    dtype = column.dtype
    if isinstance(dtype, pl.List | pl.Array) and not dtype.inner.is_nested():
        as_list = column.cast(pl.List(pl.String)) if dtype.inner != pl.String else column
        return as_list.cast(pl.List(pl.String)).list.join(" ")
    if dtype.is_nested() or dtype in (pl.Object, pl.Binary):
        return flatten_values(column)
    return column


def flatten_values(column: pl.Series) -> pl.Series:
    """Values that no text has a form for, each as JSON or, where it is one value, as it reads."""
    texts = [None if value is None else _as_text(value) for value in column.to_list()]
    return pl.Series(column.name, texts, dtype=pl.String)


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
