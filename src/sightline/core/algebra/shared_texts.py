"""Rows that share long texts, as columns that hold each text once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl


def share_texts(values: Iterable[str | None], name: str = "") -> pl.Series:
    """The texts as a column in which equal ones are stored once, however many rows have them.

    Names in recordings are references to a list of texts. A column that copied a text into each row
    would take rows times length: of one long text in a small file, more memory than there is.
    """
    codes: dict[str | None, int] = {}
    rows = [codes.setdefault(value, len(codes)) for value in values]
    texts = pl.Series(name, list(codes), dtype=pl.String)
    return texts.gather(pl.Series(rows, dtype=pl.UInt32))


def tabulate(rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    """Rows as columns of a schema; keys that a row lacks are null, others are left out.

    Raises what Polars does where a value is none of its column's type.
    """
    columns = []
    for name, dtype in schema.items():
        values = [row.get(name) for row in rows]
        is_text = dtype == pl.String
        columns.append(
            share_texts(values, name) if is_text else pl.Series(name, values, dtype=dtype)
        )
    return pl.DataFrame(columns)
