"""One rank of a job without devices: its collectives by Gloo or MPI, and what lies between them.

The same chain as a device's (`reduce`): compute is what operators of the main thread work, idle all
else that it does, as Python. torch.distributed's back end has a thread that runs the collectives,
and its ranges ("gloo:all_reduce") last from the call to the end on all ranks. No recording numbers
them: which is which of another rank's, `align` finds.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import match_names
from sightline.core.model.run import Run
from sightline.fleet.reduce import Rank, list_segments
from sightline.timeline.host_parts import COMMUNICATE, PYTHON, has_only_host, list_windows
from sightline.timeline.host_parts import list_segments as list_parts

HOST = "host"  # the kind of such rows
_RUNS = r"^(?:gloo|mpi|ucc):"  # torch/csrc/distributed/c10d: profilingTitle of each Work


def reduce_host_rank(run: Run, rank: int) -> Rank | None:
    """What other ranks need of this one; None where no collective was recorded."""
    if not has_only_host(run):
        return None
    host = run.table("host_ops")
    window = list_windows(run)
    begin, end = window.select(pl.min("start_ns"), b=pl.max("end_ns")).row(0)
    comm = host.filter(match_names(host, _RUNS), pl.col("start_ns") >= begin)
    comm = comm.filter(pl.col("end_ns") <= end).sort("start_ns", "end_ns", "host_op_id")
    if comm.is_empty():
        return None
    on_device = {"device_id": pl.lit(0, pl.Int64), "stream_id": pl.lit(0, pl.Int64)}
    name = pl.col("name").cast(pl.String)
    comm = comm.select(
        "rank",
        "start_ns",
        "end_ns",
        name.alias("name"),
        **on_device,
        device_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
        launch_id=pl.lit(None, pl.Int64),
        kind=pl.lit(HOST),
    )
    parts = list_parts(run)
    works = parts.filter(~pl.col("part").is_in([PYTHON, COMMUNICATE]))
    work = works.select("rank", "start_ns", "end_ns", **on_device)
    world = run.table("recordings").get_column("world_size").max()
    begins = pl.DataFrame({"rank": comm.get_column("rank").unique(), "begin_ns": begin})
    rows = list_segments(run, comm, work, work.clear(), begins).with_columns(
        rank=pl.lit(rank, pl.Int64),
        op="name",
        group=pl.col("name").str.extract(r"^(\w+):"),  # which of the back end's, nothing says
        group_size=pl.lit(world, pl.Int64),
        device_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
    )
    waited = int(parts.filter(pl.col("part") == COMMUNICATE).get_column("own_ns").sum())
    worked = int(works.get_column("own_ns").sum())
    shares = {
        "compute_ns": worked,
        "exposed_comm_ns": waited,
        "exposed_copy_ns": 0,
        "idle_ns": int(end - begin - worked - waited),
    }
    tail = end - int(rows.get_column("end_ns").max())  # type: ignore[arg-type]
    return Rank(rank, rows, begin, end, tail, shares, world)  # type: ignore[arg-type]
