"""What compilers, autotuners and garbage collectors leave in recordings: runtimes.tsv.

From its rows come both the cause (what the host was in during a gap) and the advice. What is not in
it has no name here, and gets neutral words.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import polars as pl

from sightline.core.packaged_rows import read_rows

# Kinds of rows: what happens once for each program, shape or type, and what comes again.
COMPILE, TUNE, LOAD, COLLECT, MESSAGE = "compile", "tune", "load", "collect", "message"
ONCE = (COMPILE, TUNE, LOAD)
AGAIN = (COLLECT, MESSAGE)
# Where a row's pattern is looked for.
RANGE, FRAME, LIBRARY, KERNEL = "range", "frame", "library", "kernel"


class Runtime(NamedTuple):
    """A row: what names say that the host is in this runtime, and what avoids the wait for it."""

    runtime: str
    kind: str
    looks_at: str
    pattern: str
    example: str
    avoid: str
    source: str

    @property
    def deed(self) -> str:
        """'compiles with XLA', to follow 'the host'."""
        if self.kind == COMPILE:
            return f"compiles ({self.runtime})"
        if self.kind == TUNE:
            return f"tunes kernels ({self.runtime})"
        if self.kind == MESSAGE:
            return f"waits for other ranks in {self.runtime}"
        return f"{'loads' if self.kind == LOAD else 'collects garbage in'} {self.runtime}"


@cache
def list_runtimes() -> tuple[Runtime, ...]:
    """The rows of the table, in their order: the first that matches counts."""
    return tuple(Runtime(*row) for row in read_rows("sightline.timeline", "runtimes.tsv")[1:])


@cache
def match_runtimes(looks_at: str, kinds: tuple[str, ...] = ONCE) -> str:
    """A pattern of all names of some kinds that stand in one place."""
    rows = [r for r in list_runtimes() if r.looks_at == looks_at and r.kind in kinds]
    return "|".join(f"(?:{r.pattern})" for r in rows)


def find_runtimes(names: pl.Series, *looks_at: str) -> pl.Series:
    """For each name its row of `list_runtimes`, or null; to be asked of few names."""
    rows = [(i, r) for i, r in enumerate(list_runtimes()) if r.looks_at in looks_at]
    text = pl.lit(names.cast(pl.String))
    known = (pl.when(text.str.contains(r.pattern)).then(pl.lit(i, pl.Int32)) for i, r in rows)
    return pl.select(pl.coalesce(*known).alias("runtime")).to_series()
