"""Columns of numbers in files, read by mapping them: what is not looked at takes no memory."""

from __future__ import annotations

import array
import mmap
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl

# Bytes of one number, by array's type code.
SIZES = {"q": 8, "I": 4, "B": 1}


class Writer:
    """Appends to a column's file."""

    def __init__(self, path: Path, code: str) -> None:
        self.code = code
        self.length = 0
        self._file = path.open("wb")

    def add(self, values: pl.Series | list[int]) -> None:
        """Append non-null integers."""
        numbers = array.array(
            self.code, values.to_list() if isinstance(values, pl.Series) else values
        )
        if sys.byteorder == "big":
            numbers.byteswap()
        self.length += len(numbers)
        numbers.tofile(self._file)

    def close(self) -> None:
        """No more will come."""
        self._file.close()


def mapped(path: Path, code: str) -> Sequence[int]:
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
