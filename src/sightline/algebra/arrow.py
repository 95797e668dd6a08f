"""Columns on their way into compiled code and back."""

from __future__ import annotations

import polars as pl

from sightline._native import Batch

# Stands for a missing number: compiled code reads columns without nulls.
_MISSING = -(2**63)


def pack_numbers(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns of whole numbers as compiled code reads them: in one piece, without nulls."""
    return frame.cast(pl.Int64).fill_null(_MISSING).rechunk()


def unpack_columns(batch: Batch) -> pl.DataFrame:
    """The columns that compiled code answers with."""
    found = pl.from_arrow(batch)
    assert isinstance(found, pl.Series)
    return found.struct.unnest()
