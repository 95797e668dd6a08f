"""Columns of numbers in files, read by mapping them: what is not looked at takes no memory."""

from __future__ import annotations

import array
import mmap
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from sightline._native import bytes_of

# By array's type code: bytes of one number, and Polars' type.
SIZES = {"q": 8, "I": 4, "B": 1}
TYPES = {"q": pl.Int64, "I": pl.UInt32, "B": pl.UInt8}


class Writer:
    """Appends to a column's file."""

    def __init__(self, path: Path, code: str) -> None:
        self.code = code
        self.length = 0
        self._file = path.open("wb")

    def add(self, values: pl.Series | list[int]) -> None:
        """Append non-null integers."""
        numbers = pl.Series("", values, TYPES[self.code]).rechunk()
        data = bytes_of(numbers.to_frame())
        if sys.byteorder == "big":  # pragma: no cover - files are little-endian
            swapped = array.array(self.code, data)
            swapped.byteswap()
            data = swapped.tobytes()
        self.length += numbers.len()
        self._file.write(data)

    def close(self) -> None:
        """No more will come."""
        self._file.close()


def map_column(path: Path, code: str) -> Sequence[int]:
    """A column's numbers. The pages of the file that are read come from the disk as needed."""
    if not path.stat().st_size:
        return array.array(code)
    with path.open("rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if sys.byteorder == "big":  # pragma: no cover - files are little-endian, as the page reads them
        numbers = array.array(code, view)
        numbers.byteswap()
        return numbers
    if code == "q":
        return view.cast("q")
    return view.cast("I") if code == "I" else view
