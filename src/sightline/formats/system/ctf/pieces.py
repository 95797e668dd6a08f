"""Rows that come in order of time, slice by slice, of which only the last is in memory."""

from __future__ import annotations

import io
import os
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.cache_folder import open_cache_folder

MOST_LATE = 10_000  # rows of a slice that may have begun before it: more are open nowhere
Place = tuple[int, int]  # of a frame on a shelf: its first byte, and how many


class Shelf:
    """A file without a name for frames that wait: it is gone with whoever knows it."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._end = 0

    def put(self, frame: pl.DataFrame) -> Place:
        """Write a frame; where it lies. Raises OSError."""
        if self._file is None:
            with tempfile.TemporaryFile(dir=open_cache_folder()) as file:
                self._file = os.dup(file.fileno())
            weakref.finalize(self, os.close, self._file)
        data = io.BytesIO()
        frame.write_ipc(data, compression="lz4")
        view, start = data.getbuffer(), self._end
        while view:
            written = os.pwrite(self._file, view, self._end)
            view, self._end = view[written:], self._end + written
        return start, self._end - start

    def take(self, place: Place) -> pl.DataFrame:
        """Read a frame back. Raises OSError."""
        start, size = place
        assert self._file is not None
        data = bytearray()
        while part := os.pread(self._file, size - len(data), start + len(data)):
            data += part
        return pl.read_ipc(io.BytesIO(data))


def copy_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """A few rows, without the texts of all rows that they were taken from: those share memory."""
    return pl.DataFrame(frame.to_dict(as_series=False), schema=frame.schema)


class Pieces:
    """A table's rows: `add` them slice by slice, then `read` them all in order of their start.

    A row that was open for longer than a slice is known when it ends: such late rows, of which each
    slice has as many as were open at its begin, wait in memory for their place.
    """

    def __init__(self, moment: str) -> None:
        self._shelf = Shelf()
        self._moment = moment
        self._pieces: list[tuple[int, Place | pl.DataFrame]] = []  # with the time that each is from
        self._late: list[pl.DataFrame] = []
        self.schema: dict[str, Any] = {}
        self.rows = 0

    @property
    def count(self) -> int:
        """How many pieces there are."""
        return len(self._pieces)

    def add(self, frame: pl.DataFrame, since: int) -> None:
        """Rows of the slice from `since` on, and late ones."""
        if frame.is_empty():
            return
        for name, dtype in frame.schema.items():
            if self.schema.get(name, pl.Null) == pl.Null:
                self.schema[name] = dtype
        self.rows += frame.height
        is_late = pl.col(self._moment) < since
        if self._pieces:
            late = frame.filter(is_late)
            if late.height > MOST_LATE:
                # A stream whose clock went back, as after damage: its rows stand where they came.
                since = self._pieces[-1][0]
            elif late.height:
                self._late.append(copy_rows(late))
                frame = frame.filter(~is_late)
            if frame.is_empty():
                return
            at, last = self._pieces[-1]
            if isinstance(last, pl.DataFrame):
                self._pieces[-1] = at, self._shelf.put(last)
        self._pieces.append((since, frame))

    def read(self) -> Iterator[pl.DataFrame]:
        """The pieces in order. Raises OSError."""
        late = pl.concat(self._late, how="diagonal_relaxed") if self._late else None
        ends = [*(since for since, _ in self._pieces[1:]), None]
        for (_, piece), end in zip(self._pieces, ends, strict=False):
            frame = piece if isinstance(piece, pl.DataFrame) else self._shelf.take(piece)
            if late is not None:
                is_here = pl.lit(value=True) if end is None else pl.col(self._moment) < end
                mine, late = late.filter(is_here), late.filter(~is_here)
                frame = pl.concat([frame, mine], how="diagonal_relaxed")
            yield self._complete(frame).sort(self._moment, "event", maintain_order=True)

    def _complete(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with all columns that some slice has."""
        missing = [n for n in self.schema if n not in frame.columns]
        return frame.with_columns(
            pl.lit(None, self.schema[name]).alias(name) for name in missing
        ).select(pl.col(name).cast(dtype) for name, dtype in self.schema.items())
