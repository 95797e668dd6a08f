"""Functions at the end of CPU stacks that are not the program's own work: host_functions.tsv."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import polars as pl

from sightline.core.packaged_rows import read_rows

# Kinds of rows; no core works in the first, and a thread sleeps in the second.
IDLE, WAIT, LOCK, MEMORY, COPY, PACK, LOAD = (
    "idle",
    "wait",
    "lock",
    "memory",
    "copy",
    "pack",
    "load",
)
ASLEEP = (IDLE, WAIT)


class HostFunction(NamedTuple):
    """A row: what a name says that the thread does there, and what avoids it."""

    kind: str
    looks_at: str
    pattern: str
    example: str
    avoid: str
    source: str


@cache
def list_host_functions() -> tuple[HostFunction, ...]:
    """The rows of the table, in their order: the first that matches counts."""
    _, *rows = read_rows("sightline.timeline", "host_functions.tsv")
    return tuple(HostFunction(*row) for row in rows)


def find_waiting_call(name: str) -> HostFunction | None:
    """The row of a system's or the C library's call of this name, if it is one that waits."""
    frame = pl.DataFrame({"layer": ["native"], "function": [name], "file": [""]})
    at = find_host_functions(frame).item()
    row = None if at is None else list_host_functions()[at]
    return row if row is not None and row.kind == WAIT else None


def find_host_functions(frames: pl.DataFrame) -> pl.Series:
    """For each frame (layer, function, file) its row of `list_host_functions`, or null."""
    name = pl.col("function").cast(pl.String)
    file = pl.col("file").cast(pl.String).str.replace_all(r"\\", "/").str.split("/").list.last()
    places = {
        "native": pl.when(pl.col("layer") != "python").then(name.str.strip_suffix("_[k]")),
        # Python 3.11 and later say the class, too: EpollSelector.select.
        "python": pl.when(pl.col("layer") == "python").then(
            pl.format("{} {}", name.str.split(".").list.last(), file)
        ),
    }
    known = (
        pl.when(places[row.looks_at].str.contains(row.pattern)).then(pl.lit(i, pl.Int32))
        for i, row in enumerate(list_host_functions())
    )
    return frames.select(pl.coalesce(*known).alias("function_kind")).to_series()
