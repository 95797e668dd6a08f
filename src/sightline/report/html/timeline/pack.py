"""Columns of integers as few bytes: differences, bytes of equal weight together, deflated.

Each column says in its entry how it was packed; web/src/report/columns.ts undoes it exactly.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sightline.algebra.lookup import number_groups

# Two thirds of the time of level 6 and within 4 % of its size on our simulated 1 M events.
LEVEL = 5

# Types by the bytes of a number.
_TYPES = {1: pl.UInt8, 2: pl.UInt16, 4: pl.UInt32, 8: pl.UInt64}

# Where a column stands in the binary part, and how it was packed.
Entry = dict[str, Any]


@dataclass
class Packed:
    """The page's binary part: columns one after another, each deflated by itself."""

    body: bytearray = field(default_factory=bytearray)

    def add(self, values: pl.Series, *, delta: bool = False) -> Entry:
        """The entry of a column of non-negative or, with `delta`, any integers without nulls."""
        numbers = values.cast(pl.Int64)
        if delta:
            step = numbers.diff().fill_null(numbers.item(0) if numbers.len() else 0)
            # Zigzag: small differences of either sign become small numbers.
            numbers = (2 * step).abs() - (step < 0).cast(pl.Int64)
        highest = numbers.max() if numbers.len() else 0
        assert isinstance(highest, int)
        width = next(w for w in _TYPES if highest < 256**w)
        numbers = numbers.cast(_TYPES[width])  # smaller numbers are divided faster
        planes = b"".join(_plane(numbers, weight) for weight in range(width))
        packed = zlib.compress(planes, LEVEL)
        entry = {
            "at": len(self.body),
            "bytes": len(packed),
            "n": numbers.len(),
            "width": width,
            "delta": delta,
        }
        self.body += packed
        return entry


def number_within(groups: pl.Series, values: pl.Series) -> tuple[pl.Series, list[list[int]]]:
    """Each value's place among the different ones of its group, and these by group number.

    A kernel's name tells its grid and registers in most places: of the details of a million
    events 1 kB is left, of 690.
    """
    frame = pl.DataFrame({"group": groups, "value": values})
    number, known = number_groups(frame, ["group", "value"])
    place = known.select(pl.int_range(pl.len()).over("group")).to_series()
    highest = groups.max() if groups.len() else -1
    assert isinstance(highest, int)
    lists: list[list[int]] = [[] for _ in range(highest + 1)]
    for group, value in known.select("group", "value").iter_rows():
        lists[group].append(value)
    return place.gather(number), lists


def _plane(numbers: pl.Series, weight: int) -> bytes:
    """The byte of this weight of each number, 0 the lowest. A list of bytes is one binary value."""
    byte = (numbers // 256**weight if weight else numbers).cast(pl.UInt8, wrap_numerical=True)
    found: bytes = byte.implode().cast(pl.Binary).item() if byte.len() else b""
    return found
