"""Rows in an order that they mostly have already, which is looked at before anything is sorted.

Importers write rows in order of time. To sort a third of a million of them anew by device, time and
id takes 70 ms, the look 1 ms.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline.core.algebra.lookup import find_varying


def sort_rows(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The frame in ascending order, nulls first; of equal rows the first stays first.

    The frame itself where it is in that order.
    """
    keys = find_varying(by, frame)
    if not keys or _is_in_order(frame, keys):
        return frame
    return frame.sort(keys, maintain_order=True)


def _is_in_order(frame: pl.DataFrame, keys: Sequence[str]) -> bool:
    """Whether no row comes before the one above it; with nulls that is not looked at."""
    if any(frame.select(keys).null_count().row(0)):
        return False
    *outer, last = (pl.col(key) for key in keys)
    follows = last >= last.shift(1)
    for key in reversed(outer):
        follows = (key > key.shift(1)) | ((key == key.shift(1)) & follows)
    return bool(frame.select(follows.all(ignore_nulls=True)).item())
