"""Texts and call stacks of a pickle, from the codes and numbers that compiled code gives."""

from __future__ import annotations

import polars as pl

from sightline._native import Pickle
from sightline.core.algebra.arrow import unpack_columns

# Python's frames have a source file; so have those of C++, where they were symbolized.
_PYTHON = r"(?i)\.pyx?$|^<.*>$"


class Decoder:
    """The texts of a pickle by their codes. To be made when all rows were taken once."""

    def __init__(self, pickle: Pickle) -> None:
        raw = unpack_columns(pickle.texts()).get_column("text")
        # Codes count from 1.
        self._texts = pl.Series(
            [None, *(value.decode("utf-8", "replace") for value in raw)], dtype=pl.String
        )
        self._pickle = pickle

    def decode(self, codes: pl.Series) -> pl.Series:
        """Texts of codes; null stays null."""
        if codes.null_count() == codes.len():
            return pl.repeat(None, codes.len(), dtype=pl.String, eager=True).alias(codes.name)
        return self._texts.gather(codes.fill_null(0)).alias(codes.name)

    def decode_columns(self, frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
        """The frame with texts in place of codes."""
        return frame.with_columns(self.decode(frame.get_column(name)) for name in columns)

    def make_categories(self, renamed: dict[str, str | None]) -> pl.Series:
        """All texts by their codes as categories, some under another name or as null."""
        return self._texts.replace(renamed).cast(pl.Categorical)

    def make_stacks(self) -> dict[str, pl.DataFrame]:
        """The tables `frames` and `stacks`."""
        frames = self.decode_columns(unpack_columns(self._pickle.frames()), "function", "file")
        is_python = pl.col("file").str.contains(_PYTHON)
        known = pl.col("file").is_not_null() & ~pl.col("file").is_in(["", "??"])
        frames = frames.with_row_index("frame_id").with_columns(
            layer=pl.when(is_python).then(pl.lit("python")).otherwise(pl.lit("native")),
            function=pl.col("function").fill_null(""),
            file=pl.when(known).then("file"),
            line=pl.when(known & (pl.col("line") > 0)).then("line"),
        )
        stacks = unpack_columns(self._pickle.stacks()).with_row_index("stack_id")
        return {"frames": frames, "stacks": stacks}
