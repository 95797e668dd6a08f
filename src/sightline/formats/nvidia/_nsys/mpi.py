"""What the names of MPI calls and the communicators say: whose message, and between which ranks."""

from __future__ import annotations

import polars as pl

# Columns of MPI_COMMUNICATORS (its schema in the exporter's own words: rank is the world's).
COMMUNICATOR = (
    "rank",
    "commHandle",
    "parentHandle",
    "localRank",
    "size",
    "groupRoot",
    "groupRootUid",
)
# A wait for one of several requests does not say which one ended, nor a test whether one did.
_SEND, _RECEIVE = r"^MPI_(?:I?)[Bbsr]?[Ss]end$", r"^MPI_(?:Recv|Irecv)$"
_COMPLETES = r"^MPI_Wait(?:all)?$"


def name_parts(name: pl.Expr) -> dict[str, pl.Expr]:
    """`direction` and `stage` of a call's messages, null of calls that have none of one peer."""
    direction = (
        pl.when(name.str.contains(_SEND))
        .then(pl.lit("send"))
        .when(name.str.contains(_RECEIVE))
        .then(pl.lit("receive"))
    )
    stage = (
        pl.when(name.str.contains(_COMPLETES))
        .then(pl.lit("completed"))
        .when(direction.is_not_null() & name.str.starts_with("MPI_I"))
        .then(pl.lit("posted"))
        .when(direction.is_not_null())
        .then(pl.lit("whole"))
    )
    return {"direction": direction, "stage": stage}


def list_communicators(rows: pl.DataFrame) -> pl.DataFrame:
    """Communicators: mpi_rank, _handle, local_rank, group and group_size.

    A handle that a rank had for several groups, one after the other, names none.
    """
    # What was made from no group and has no parent is the world; parts have their root's number.
    is_world = (pl.col("parentHandle") == 0) & pl.col("groupRoot").is_null()
    part = pl.format("communicator {} of rank {}", "groupRootUid", "groupRoot")
    named = rows.select(
        mpi_rank="rank",
        _handle="commHandle",
        local_rank="localRank",
        group=pl.when(is_world).then(pl.lit("world")).otherwise(part),
        group_size="size",
    )
    named = named.drop_nulls().unique()
    return named.filter(pl.len().over("mpi_rank", "_handle") == 1)


def name_ranks(calls: pl.DataFrame, communicators: pl.DataFrame) -> pl.DataFrame:
    """The calls with the group of their communicator, and peers and roots as ranks of the world."""
    groups = communicators.drop("local_rank")
    members = communicators.select("group", peer="local_rank", peer_rank="mpi_rank")
    members = members.unique(["group", "peer"], keep="none")
    roots = members.rename({"peer": "root", "peer_rank": "root_rank"})
    named = (
        calls.join(groups, on=["mpi_rank", "_handle"], how="left", maintain_order="left")
        .join(members, on=["group", "peer"], how="left", maintain_order="left")
        .join(roots, on=["group", "root"], how="left", maintain_order="left")
    )
    # Of the world all ranks are known, whether they are in this recording or not.
    in_world = (pl.col("group") == "world") & (
        pl.col("peer").is_between(0, pl.col("group_size") - 1)
    )
    at_root = (pl.col("group") == "world") & (
        pl.col("root").is_between(0, pl.col("group_size") - 1)
    )
    return named.with_columns(
        peer_rank=pl.when(in_world).then("peer").otherwise("peer_rank"),
        root_rank=pl.when(at_root).then("root").otherwise("root_rank"),
    )
