"""MPI's calls of traces: which rank a process is, and which communicators have the world's ranks.

A tracer records arguments as they are: handles, and ranks within a communicator. Those of MPICH,
whose headers THAPI is built with, say what they stand for (MPICH, src/include/mpir_objects.h and
mpi.h.in): MPI_COMM_WORLD is 0x44000000 in every process, and the handle of a built-in datatype
holds its size.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.tables import load_table
from sightline.formats.system.ctf.rows import OF_MPI

LANE = ("pid", "tid", "key")  # of a call's begin and end
GIVEN_BACK = ("mpi_rank", "group_size", "request", "new_communicator")
_WORLD, _BUILT_IN = 0x44000000, 0x4C
_PROCESS = ["pid", "communicator"]
_MOST_COPIES = 16  # of copies of the world
_COLUMNS = {c.name: c.dtype for c in load_table("mpi_events").stored}


def complete_calls(sides: pl.DataFrame) -> pl.DataFrame:
    """Rows of calls' begins and ends with all columns, those that no event has as nulls."""
    missing = {name: t for name, t in (_COLUMNS | OF_MPI).items() if name not in sides.columns}
    return sides.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in missing.items())


def describe_calls(calls: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """The table mpi_events: each row with the call of `host` that begins with the same event.

    Peers and roots are ranks of the world where the communicator is the world or a copy of it.
    """
    begins = host.select("event", "pid", "host_op_id")
    placed = calls.drop("host_op_id", "pid", "group").join(begins, on="event").sort("host_op_id")
    worlds = _list_worlds(placed)
    known = placed.join(worlds, on=_PROCESS, how="left", nulls_equal=True, maintain_order="left")
    is_world = pl.col("group").is_not_null()
    own = (
        known.filter(is_world)
        .group_by("pid")
        .agg(pl.col("mpi_rank").max(), size=pl.col("group_size").max())
    )
    known = known.drop("mpi_rank").join(
        own, on="pid", how="left", nulls_equal=True, maintain_order="left"
    )
    type_ = pl.col("datatype")
    is_built_in = type_ // 2**24 == _BUILT_IN
    filled = known.with_columns(
        group_size=pl.when(is_world).then("size"),
        peer_rank=pl.when(is_world & (pl.col("peer") >= 0)).then("peer"),
        root_rank=pl.when(is_world & (pl.col("root") >= 0)).then("root"),
        # Of a receive from any rank or with any tag, which are negative, nobody knows whose it is.
        tag=pl.when(pl.col("tag") >= 0).then("tag"),
        bytes=pl.when(is_built_in).then(pl.col("count") * (type_ // 2**8 % 2**8)),
    )
    return filled.select(name for name in _COLUMNS if name in filled.columns)


def _list_worlds(calls: pl.DataFrame) -> pl.DataFrame:
    """Communicators of each process that have the ranks of the world: pid, communicator, group.

    All processes make copies of a communicator in one order (MPI 4.1, 7.4.2: MPI_Comm_dup is
    collective), so the k-th copy is one communicator, whatever its handle is.
    """
    found = calls.filter(pl.col("communicator") == _WORLD).select(_PROCESS).unique()
    found = found.with_columns(group=pl.lit("world"))
    copies = calls.drop_nulls("new_communicator").sort("event")
    copies = copies.select(*_PROCESS, "new_communicator").with_columns(
        nth=pl.int_range(pl.len()).over(_PROCESS)
    )
    worlds = [found]
    for _ in range(_MOST_COPIES):
        made = copies.join(worlds[-1], on=_PROCESS, nulls_equal=True).select(
            "pid",
            communicator="new_communicator",
            group=pl.format("{}, copy {}", "group", pl.col("nth") + 1),
        )
        if made.is_empty():
            break
        worlds.append(made)
    # A handle that was used again, after its communicator was freed, is none of them.
    return pl.concat(worlds).unique().filter(pl.len().over(_PROCESS) == 1)
