"""Ranks by time: how late each was to its collectives, in few enough rows to be read."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.fleet.job import PARTS, Job


@dataclass(frozen=True)
class Heat:
    """Rows of ranks by bins of the job's time: `late[row][bin]` is a share from 0 to 1 of the bin.

    Of a row of several ranks it is the latest one's. `ranks` are the first and last of each row.
    """

    ranks: list[tuple[int, int]]
    late: list[list[float]]
    bin_ns: int


def make_heat(job: Job, *, rows: int, bins: int, alone: tuple[int, ...] = ()) -> Heat:
    """The ranks in at most so many rows of equal size, and those named `alone` once more."""
    numbers = [r.rank for r in job.ranks]
    begin = job.begin_ns
    length = max(int(job.rows.get_column("end_ns").max() or begin) - begin, 1)  # type: ignore[arg-type]
    per_bin = -(-length // bins)
    usual = pl.col("start_ns").median().over("meeting")
    late = (
        job.rows.filter(~pl.col("alone"))
        .select(
            "rank",
            bin=((pl.col("start_ns") - begin) // per_bin).clip(0, bins - 1),
            ns=(pl.col("start_ns") - usual).clip(lower_bound=0),
        )
        .group_by("rank", "bin")
        .agg(pl.col("ns").sum())
    )
    of = {(rank, at): min(1.0, ns / per_bin) for rank, at, ns in late.rows()}
    size = -(-len(numbers) // rows)
    groups = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    groups += [[rank] for rank in alone if size > 1]
    return Heat(
        [(group[0], group[-1]) for group in groups],
        [[max(of.get((r, at), 0.0) for r in group) for at in range(bins)] for group in groups],
        per_bin,
    )


def list_excess(job: Job) -> pl.DataFrame:
    """Each rank's excess of each part over its peers', and how long it waited for others, ns."""
    return (
        job.rows.group_by("rank")
        .agg(
            *(pl.col(f"{part}_excess_ns").sum().alias(f"{part}_ns") for part in PARTS),
            waited_ns=pl.col("wait_ns").sum(),
        )
        .sort("rank")
    )
