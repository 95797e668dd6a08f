"""On which ranks main threads lose time: a rank's share is of its own window, not of all ranks'."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.build import CRITICAL_PCT
from sightline.timeline.host_parts import list_windows

_MOST_NAMED = 4  # ranks in a sentence (ours)
_APART = 1.02  # the worst rank's share over the mean from which on both are told (ours)


@dataclass(frozen=True)
class There:
    """The ranks that lose much of what the worst one does, and the share of their windows, in %."""

    ranks: list[int | None]
    pct: float
    of: int  # ranks of the run
    worst: int | None
    worst_pct: float

    @property
    def thread(self) -> str:
        """The subject of a sentence: 'The main thread', 'On rank 1 the main thread'."""
        ranks = self.ranks
        if not ranks or len(ranks) == self.of:
            return "The main thread"
        if len(ranks) == 1:
            return f"On rank {ranks[0]} the main thread"
        if len(ranks) <= _MOST_NAMED:
            names = f"{', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
            return f"On ranks {names} the main thread"
        return f"On {len(ranks)} of {format_several(self.of, 'rank')} the main thread"

    @property
    def share(self) -> str:
        """'14.9 %', and where the worst rank loses notably more, '14.9 % (rank 1: 17.5 %)'."""
        mean, worst = format_pct(self.pct), format_pct(self.worst_pct)
        if len(self.ranks) < 2 or self.worst_pct < _APART * self.pct:
            return mean
        return f"{mean} (rank {self.worst}: {worst})"


def find_there(run: Run, each: pl.DataFrame) -> There:
    """Of what each rank loses (rank, ns): those that lose at least CRITICAL_PCT of the worst."""
    windows = list_windows(run).select("rank", window=pl.col("end_ns") - pl.col("start_ns"))
    much = (pl.col("ns") > 0) & (100 * pl.col("ns") >= CRITICAL_PCT * pl.col("ns").max())
    rows = each.filter(much).join(windows, on="rank", nulls_equal=True)
    whole = max(sum_column(rows, "window"), 1)
    ranks = rows.get_column("rank").unique().sort().to_list()
    shares = rows.select("rank", pct=100 * pl.col("ns") / pl.col("window").clip(1))
    worst = shares.sort("pct", "rank", descending=[True, False]).head(1).rows()
    pct = 100 * sum_column(rows, "ns") / whole
    return There(ranks, pct, windows["rank"].n_unique(), *(worst[0] if worst else (None, 0.0)))
