"""What each name took between two moments, from the sums at the edges of slices of the run.

Between two edges the events of one slice are added, which are found by search. So a range costs
what two slices cost, however long it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from sightline.report.serve.index import Index
from sightline.report.serve.names import Numbers, Sums


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
