"""How long MPI ranks waited for each other, in which calls, and for whom.

late sender      a receive, or the wait for it, was entered before the other rank began to send
late receiver    a send, or the wait for it, was still going on when its receive was posted
wait at barrier  until the last rank had come to the barrier
wait at n x n    the same in Allreduce, Allgather, Allgatherv, Alltoall and Reduce_scatter
late broadcast   in Bcast, Scatter and Scatterv, until the root had come
early reduce     at the root of Reduce, Gather and Gatherv, until the first other rank had come

These are Scalasca's definitions (Scalasca 2.5, MPI.pattern). A call has one wait, and it is never
longer than the call; a call that returns at once (MPI_Isend, MPI_Iallreduce) has none.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.model.columns import duration, number, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.mpi import measure_processes
from sightline.timeline.mpi_waits import list_mpi_waits

_MOST_FRAMES = 64  # of a call path

ANALYSIS = Analysis(
    "mpi_waits",
    "How long did MPI ranks wait for each other, and for whom?",
    (
        text("pattern", "what was waited for", required=True),
        number("mpi_rank", "rank that waited", required=True),
        number("peer_rank", "rank that it waited for", required=True),
        text("call_path", "the ranges around the call, and the call", required=True),
        number("calls", "calls that waited", required=True),
        duration("wait_ns", "how long"),
        duration("longest_wait_ns", "the longest one"),
        pct("rank_pct", "the waits, % of the time in which the rank was recorded"),
        duration("uncertainty_ns", "how far the two ranks' clocks may be apart"),
    ),
    needs=("mpi_events",),
    notes=(
        "Messages are matched in MPI's order; a kind with unequal numbers of sends and receives "
        "is not matched.",
        "Between recordings whose clocks nothing compares (sightline stats clocks), "
        "uncertainty_ns is empty and the waits may be wrong by any time.",
        "Waits shorter than the clocks' uncertainty are left out.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per pattern, pair of ranks and call path, the longest waits first."""
    waits = list_mpi_waits(run)
    by = ["pattern", "mpi_rank", "peer_rank", "call_path"]
    spans = measure_processes(run).select("span_ns", mpi_rank="process")
    return (
        waits.rename({"process": "mpi_rank", "peer": "peer_rank"})
        .with_columns(call_path=list_call_paths(run, waits.get_column("host_op_id")))
        .group_by(by)
        .agg(
            calls=pl.len(),
            longest_wait_ns=pl.col("wait_ns").max(),
            wait_ns=pl.col("wait_ns").sum(),
            uncertainty_ns=pl.when(pl.col("is_comparable").all()).then(
                pl.col("uncertainty_ns").max()
            ),
        )
        .join(spans, on="mpi_rank", how="left")
        .with_columns(rank_pct=100 * pl.col("wait_ns") / pl.col("span_ns"))
        .select(pl.col(c.name).cast(c.dtype) for c in ANALYSIS.columns)
        .sort("wait_ns", *by, descending=[True, False, False, False, False])
    )


def list_call_paths(run: Run, ids: pl.Series) -> pl.Series:
    """For each host operation the names of the ranges around it and its own, outermost first."""
    host = run.table("host_ops").select("host_op_id", "parent_id", pl.col("name").cast(pl.String))
    at = find_rows(host.get_column("host_op_id"), ids)
    path = host.get_column("name").gather(at)
    last = path
    for _ in range(_MOST_FRAMES):
        at = find_rows(host.get_column("host_op_id"), host.get_column("parent_id").gather(at))
        if at.null_count() == at.len():
            break
        above = host.get_column("name").gather(at)
        # A recording may hold one call several times: once for each of its requests.
        known = above.is_not_null() & (above != last).fill_null(value=True)
        path = pl.select(pl.when(known).then(above + " > " + path).otherwise(path)).to_series()
        last = pl.select(pl.coalesce(above, last)).to_series()
    return path.alias("call_path")
