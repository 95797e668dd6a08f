"""Columns of integers as few bytes: bytes of equal weight together, deflated.

Each column says in its entry how it was packed; web/src/report/columns.ts undoes it exactly.
"""

from __future__ import annotations

import threading
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from sightline.core.algebra.lookup import number_groups

# Two thirds of the time of level 6 and within 4 % of its size on our simulated 1 M events.
LEVEL = 5

# Where a column stands in the binary part, and how it was packed.
Entry = dict[str, Any]


@dataclass
class Packed:
    """The page's binary part: columns one after another, each deflated by itself."""

    body: bytearray = field(default_factory=bytearray)
    _lock: threading.Lock = field(default_factory=threading.Lock)  # panels are made beside others

    def add(self, values: pl.Series | np.ndarray, *, delta: bool = False) -> Entry:
        """The entry of a column of integers without nulls; with `delta` of their differences."""
        return self.add_deflated(deflate_column(values, delta=delta))

    def add_deflated(self, column: tuple[Entry, bytes]) -> Entry:
        """The entry of what `deflate_column` made."""
        entry, packed = column
        with self._lock:
            entry["at"] = len(self.body)
            self.body += packed
        return entry


def deflate_column(values: pl.Series | np.ndarray, *, delta: bool = False) -> tuple[Entry, bytes]:
    """An entry that lacks only its place, and the column's bytes.

    Whatever divides all numbers is taken out: times of many recordings are whole microseconds.
    """
    numbers = np.asarray(values.to_numpy() if isinstance(values, pl.Series) else values, np.int64)
    if delta:
        numbers = np.diff(numbers, prepend=0)
    unit = _find_unit(numbers)
    if unit > 1:
        numbers = numbers // unit
    signed = bool(numbers.size) and bool(numbers.min() < 0)
    if signed:  # zigzag: small differences of either sign become small numbers
        numbers = (numbers << 1) ^ (numbers >> 63)
    width = max(1, -(-int(numbers.max()).bit_length() // 8)) if numbers.size else 1
    numbers = numbers.astype(f"<u{next(w for w in (1, 2, 4, 8) if w >= width)}", copy=False)
    planes = numbers.view(np.uint8).reshape(numbers.size, numbers.itemsize).T[:width]
    packed = zlib.compress(planes.tobytes(), LEVEL)
    entry: Entry = {"at": 0, "bytes": len(packed), "n": numbers.size, "width": width}
    # What is usual is not said: a small page has as many entries as a large one.
    if unit > 1:
        entry["unit"] = unit
    if signed:
        entry["signed"] = True
    if delta:
        entry["delta"] = True
    return entry, packed


def _find_unit(numbers: np.ndarray) -> int:
    """What divides all numbers; 1 where nothing does, which the first of them mostly tell."""
    for some in (numbers[:1_000], numbers):
        unit = int(np.gcd.reduce(some)) if some.size else 1
        if unit == 1:
            break
    return unit


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
