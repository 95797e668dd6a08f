"""How long the device operations of each name took: a histogram for each, made once with the index.

A record holds how many there are, the shortest and the longest length in ns, the place of the first
that took longest, and how many are in each of at most BINS equal steps of a logarithmic axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

BINS = 40
RECORD = 4 + BINS
Extents = Sequence[tuple[int, int]]


def make_lengths(columns: dict[str, Sequence[int]], extents: Extents) -> pl.DataFrame:
    """Records of the events in some extents of an index' columns: code and RECORD numbers a name.

    The columns are read an extent at a time, twice.
    """
    if not extents:
        return pl.DataFrame(schema={"code": pl.UInt32})
    spans = [
        rows.group_by("code").agg(count=pl.len(), least=pl.min("n"), most=pl.max("n"))
        for rows in _rows(columns, extents)
    ]
    names = pl.concat(spans).group_by("code")
    known = names.agg(pl.sum("count"), pl.min("least"), pl.max("most")).sort("code")
    low = pl.max_horizontal("least", 1)
    known = known.with_columns(low=low, high=pl.max_horizontal("most", low + 1))
    ends = known.select("low", "high").rows()
    known = known.with_columns(bins=pl.Series([bin_count(*pair) for pair in ends], dtype=pl.Int64))
    counted, longest = _count(columns, extents, known)
    bins = np.zeros((known.height, BINS), np.int64)
    place = known.get_column("code").search_sorted(counted["code"]).to_numpy()
    bins[place, counted.get_column("bin").to_numpy()] = counted.get_column("n").to_numpy()
    numbers = known.join(longest, on="code", how="left", maintain_order="left")
    return numbers.select("code", pl.col("count", "least", "most", "place").cast(pl.Int64)).hstack(
        pl.from_numpy(bins, schema=[f"bin{i}" for i in range(BINS)])
    )


def _rows(columns: dict[str, Sequence[int]], extents: Extents) -> Iterator[pl.DataFrame]:
    for a, b in extents:
        start, end, code = (np.asarray(columns[c][a:b]) for c in ("start", "end", "name"))
        frame = pl.DataFrame({"code": code, "start": start, "n": end - start})
        yield frame.with_columns(place=pl.int_range(a, b, dtype=pl.Int64))


def _count(
    columns: dict[str, Sequence[int]], extents: Extents, known: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """How many of each name are in each step, and each name's first that took longest."""
    share = (pl.max_horizontal("n", "low") / pl.col("low")).log() / (
        pl.col("high") / pl.col("low")
    ).log()
    step = (share * pl.col("bins")).floor().cast(pl.Int64)
    step = pl.min_horizontal(step, pl.col("bins") - 1).clip(0)
    counts, longest = [], []
    for rows in _rows(columns, extents):
        # "code" and "n" of the rows, and what is known of their names beside them.
        here = rows.join(known.drop("count", "least"), on="code", how="left")
        counts.append(here.group_by("code", bin=step).agg(n=pl.len().cast(pl.Int64)))
        first = here.filter(pl.col("n") == pl.col("most")).sort("start", "place")
        longest.append(first.unique("code", keep="first").select("code", "start", "place"))
    return (
        pl.concat(counts).group_by("code", "bin").agg(pl.sum("n")),
        pl.concat(longest)
        .sort("start", "place")
        .unique("code", keep="first")
        .select("code", "place"),
    )


def bin_count(low: int, high: int) -> int:
    """As many steps as web/src/report/charts.ts draws: of 2 % and more, at most BINS."""
    ratio = pl.Series([high / low, 1.02]).log()
    return min(BINS, max(1, -int(-ratio[0] // ratio[1])))
