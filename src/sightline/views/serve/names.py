"""What each name took between two moments, from sums that are kept at equal distances of time.

Of any moment three numbers of each name say it all: how many of its events had started, how many
had ended, and how long all had run. At the edges of slices of the run they are kept, made once with
the index; between two edges the events of one slice are added, which are found by search. So a
range costs what two slices cost, however long it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from sightline.views.serve.columns import Writer
from sightline.views.serve.index import Index, Sums

# Of 100 million events a slice holds some 25 000, which take a millisecond; a slice of fewer than
# LEAST would keep more than the events themselves. A table's sums take at most 24 bytes of this.
SLICES, LEAST, MOST_SUMS = 4_096, 4_096, 2_500_000

Numbers = npt.NDArray[np.int64]


class Adder:
    """Adds up the names of a run, a part of a table at a time."""

    def __init__(self, length_ns: int, events: int) -> None:
        self.slices = max(1, min(SLICES, events // LEAST))
        self.width = length_ns // self.slices + 1  # all events start before the last edge
        self._started: dict[str, pl.DataFrame] = {}
        self._ended: dict[str, pl.DataFrame] = {}

    def add(self, table: str, rows: pl.DataFrame) -> None:
        """Add rows with code, start_ns and end_ns, counted from the run's first event."""
        start, end = pl.col("start_ns"), pl.col("end_ns")
        # An event has started before an edge or at none; it has ended before it or on it.
        for found, moment, piece in (
            (self._started, start, start // self.width),
            (self._ended, end, (end - 1) // self.width),
        ):
            more = (
                rows.lazy()
                .with_columns(piece=piece)
                .group_by("code", "piece")
                .agg(n=pl.len().cast(pl.Int64), rest=_to_edge("piece", moment, self.width).sum())
                .collect()
            )
            known = [found[table], more] if table in found else [more]
            together = pl.concat(known).group_by("code", "piece")
            found[table] = together.agg(pl.col("n", "rest").sum())

    def write(self, writer: Writer) -> list[Sums]:
        """Write the sums of all tables."""
        made = []
        for table, started in self._started.items():
            names = started.get_column("code").unique().sort()
            # Fewer slices where there are many names.
            step = -(-names.len() * (self.slices + 1) // MOST_SUMS)
            slices = -(-self.slices // step)
            made.append(Sums(table, names.to_list(), self.width * step, slices, writer.length))
            both = started, self._ended[table]
            begun, over = (self._spread(found, names, slices, step) for found in both)
            writer.add(pl.Series(_sum_up(begun, over, self.width * step).ravel()))
        return made

    def _spread(
        self, found: pl.DataFrame, names: pl.Series, slices: int, step: int
    ) -> tuple[Numbers, Numbers]:
        """`n` and `rest` as arrays of slices and names; the first row is what lies before all."""
        wide = pl.col("piece") // step
        inner = (wide + 1) * step - pl.col("piece") - 1
        rows = found.with_columns(wide=wide, rest=pl.col("rest") + pl.col("n") * inner * self.width)
        place = (
            (rows.get_column("wide") + 1).to_numpy(),
            names.search_sorted(rows["code"]).to_numpy(),
        )
        both = tuple(np.zeros((slices + 1, names.len()), np.int64) for _ in range(2))
        for numbers, column in zip(both, ("n", "rest"), strict=True):
            np.add.at(numbers, place, rows.get_column(column).to_numpy())
        return both[0], both[1]


def _to_edge(piece: str, moment: pl.Expr, width: int) -> pl.Expr:
    """How long it is from a moment to the end of its slice."""
    return (pl.col(piece) + 1) * width - moment


def _sum_up(
    started: tuple[Numbers, Numbers], ended: tuple[Numbers, Numbers], width: int
) -> Numbers:
    """Started, ended and ns of each name at each edge: an array of edges, 3 and names."""
    n_started, n_ended = (np.cumsum(counts, axis=0) for counts, _ in (started, ended))
    # In a slice what was open runs for all of it; what starts, and what ends, for a part.
    ran = (n_started - n_ended)[:-1] * width + (started[1] - ended[1])[1:]
    ns = np.cumsum(np.vstack([np.zeros_like(ran[:1]), ran]), axis=0)
    return np.stack([n_started, n_ended, ns], axis=1)


def add_up_names(index: Index, table: str, first: int, last: int) -> list[tuple[int, int, int]]:
    """Of each name of a table: its number, how many of its events a range touches, and their ns.

    Events are cut to the range; a name without any time in it is left out.
    """
    for sums in index.sums:
        if sums.table == table:
            before, after = (_at(index, sums, moment) for moment in (first, last))
            counts, ns = after[0] - before[1], after[2] - before[2]
            return [
                (sums.names[i], int(counts[i]), int(ns[i])) for i in np.flatnonzero(ns > 0).tolist()
            ]
    return []


def _at(index: Index, sums: Sums, moment: int) -> Numbers:
    """Started, ended and ns of each name at a moment: an array of 3 and names."""
    if moment < 0:
        return np.zeros((3, len(sums.names)), np.int64)
    piece = min(moment // sums.width, sums.slices)
    size = 3 * len(sums.names)
    begin = sums.first + piece * size
    found = np.array(index.columns["name_sums"][begin : begin + size], np.int64)
    found = found.reshape(3, len(sums.names))
    edge = piece * sums.width
    if moment == edge or piece == sums.slices:
        return found
    names = np.asarray(sums.names)
    columns = index.columns
    for a, b in _touched(index, sums.table, edge, moment):
        start, end, name = (np.asarray(columns[c][a:b]) for c in ("start", "end", "name"))
        place = np.searchsorted(names, name)
        np.add.at(found[0], place, (start >= edge).astype(np.int64))
        np.add.at(found[1], place, ((end > edge) & (end <= moment)).astype(np.int64))
        np.add.at(found[2], place, np.minimum(end, moment) - np.maximum(start, edge))
    return found


def _touched(index: Index, table: str, edge: int, moment: int) -> Iterator[tuple[int, int]]:
    """The events of a table that are open at an edge, or start from it on and before a moment."""
    start, end = index.columns["start"], index.columns["end"]
    for lane in index.lanes:
        if index.keys[lane.track][0] != table:
            continue
        for a, b in lane.extents:
            i = bisect_left(start, edge, a, b)
            j = bisect_left(start, moment, i, b)
            if i > a and end[i - 1] > edge:  # in a lane nothing overlaps: no other is open
                i -= 1
            if i < j:
                yield i, j
