"""Rows that come in order of time, slice by slice, of which only the last is in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from sightline.model.cache_folder import open_cache_folder


class Shelf:
    """A folder for frames that wait; it goes with the last who knows it."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def put(self, frame: pl.DataFrame) -> Path:
        """Write a frame; where it lies. Raises OSError."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="ctf-", dir=open_cache_folder())
        self._count += 1
        path = Path(self._folder.name) / f"{self._count}.arrow"
        with path.open("wb") as file:
            frame.write_ipc(file, compression="lz4")
        return path

    def take(self, path: Path, *, remove: bool) -> pl.DataFrame:
        """Read a frame back, and remove it where it is not asked for again."""
        with path.open("rb") as file:
            frame = pl.read_ipc(file)
        if remove:
            path.unlink()
        return frame


class Pieces:
    """A table's rows: `add` them slice by slice, then `read` them all in order of their start.

    A row that was open for longer than a slice is known when it ends: such late rows, of which each
    slice has as many as were open at its begin, wait in memory for their place.
    """

    def __init__(self, shelf: Shelf, moment: str) -> None:
        self._shelf = shelf
        self._moment = moment
        self._pieces: list[tuple[int, Path | pl.DataFrame]] = []  # with the time that each is from
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
            if late.height:
                self._late.append(late)
                frame = frame.filter(~is_late)
            if frame.is_empty():
                return
            at, last = self._pieces[-1]
            if isinstance(last, pl.DataFrame):
                self._pieces[-1] = at, self._shelf.put(last)
        self._pieces.append((since, frame))

    def read(self, *, remove: bool) -> Iterator[pl.DataFrame]:
        """The pieces in order; they are gone afterwards where they are to be removed."""
        late = pl.concat(self._late, how="diagonal_relaxed") if self._late else None
        ends = [*(since for since, _ in self._pieces[1:]), None]
        for number, ((_, piece), end) in enumerate(zip(self._pieces, ends, strict=False)):
            frame = (
                piece if isinstance(piece, pl.DataFrame) else self._shelf.take(piece, remove=remove)
            )
            if late is not None:
                is_here = pl.lit(value=True) if end is None else pl.col(self._moment) < end
                mine, late = late.filter(is_here), late.filter(~is_here)
                frame = pl.concat([frame, mine], how="diagonal_relaxed")
            if remove:
                self._pieces[number] = (0, pl.DataFrame())
            yield self._complete(frame).sort(self._moment, "event", maintain_order=True)

    def _complete(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with all columns that some slice has."""
        missing = [n for n in self.schema if n not in frame.columns]
        return frame.with_columns(
            pl.lit(None, self.schema[name]).alias(name) for name in missing
        ).select(pl.col(name).cast(dtype) for name, dtype in self.schema.items())
