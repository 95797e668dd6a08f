"""How long ranks waited in MPI calls for others: wait states by Scalasca's definitions.

Scalasca 2.5, src/scout/generator/MPI.pattern; F. Wolf and B. Mohr, "Automatic performance analysis
of hybrid MPI/OpenMP applications", J. Systems Architecture 49 (2003). A late sender: a receive was
entered before the send; the wait is the time between. A late receiver: a send was still going on
when the receive was posted; the wait is the time from the send until then. In a barrier and in
n x n collectives each rank waits for the last one to come; in 1 to n collectives for the root; in
n to 1 collectives the root for the first other rank. No wait is longer than its call, and a call
has one: of several messages that it completes the one that it waited for longest, a late sender
first.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.timeline.clocks import fit_run_clocks, list_shared_clocks
from sightline.timeline.mpi import (
    ALL_TO_ALL,
    ALL_TO_ROOT,
    BARRIER,
    ROOT_TO_ALL,
    list_messages,
    list_mpi_collectives,
)

LATE_SENDER, LATE_RECEIVER = "late sender", "late receiver"
LATE_BROADCAST, EARLY_REDUCE = "late broadcast", "early reduce"
AT_BARRIER, AT_ALL = "wait at barrier", "wait at n x n"
_SCHEMA = {
    "pattern": pl.String,
    "process": pl.Int64,
    "peer": pl.Int64,
    "rank": pl.Int64,
    "pid": pl.Int64,
    "tid": pl.Int64,
    "host_op_id": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "wait_ns": pl.Int64,
    "peer_op_id": pl.Int64,
    "bytes": pl.Int64,
    "uncertainty_ns": pl.Int64,
    "is_comparable": pl.Boolean,
}
_COLUMNS = list(_SCHEMA)


def list_mpi_waits(run: Run) -> pl.DataFrame:
    """One row per MPI call that waited for another rank, in order of time.

    Columns: pattern, process and peer (ranks in the world), the call (rank, pid, tid, host_op_id;
    start_ns until end_ns is the wait, wait_ns long), the peer's call `peer_op_id`, and how far the
    two ranks' clocks may be wrong: `uncertainty_ns`, 0 in one recording, and of ranks that share
    their host's clock what their readings of the wall clock are apart; where neither that nor
    collectives tell, they are not `is_comparable`.
    """
    return run.once(_list_waits)


def _list_waits(run: Run) -> pl.DataFrame:
    threads = run.table("host_ops", ["host_op_id", "pid", "tid"])
    found = [_find_late_senders(run), _find_late_receivers(run), _find_collective_waits(run)]
    waits = pl.concat(found, how="diagonal").join(threads, on="host_op_id", how="left")
    waits = _add_uncertainty(run, waits).filter(
        pl.col("wait_ns") > pl.col("uncertainty_ns").fill_null(0)
    )
    # Messages of one call wait at once: the longest counts, and a late sender before a receiver.
    is_receiver = pl.col("pattern") == LATE_RECEIVER
    waits = waits.sort(is_receiver, -pl.col("wait_ns"), "peer", "host_op_id").unique(
        ["process", "tid", "start_ns", "call_end_ns"], keep="first", maintain_order=True
    )
    waits = waits.with_columns(end_ns=pl.col("start_ns") + pl.col("wait_ns"))
    return waits.select(pl.col(name).cast(_SCHEMA[name]) for name in _COLUMNS).sort(
        "start_ns", "process", "host_op_id"
    )


def _find_late_senders(run: Run) -> pl.DataFrame:
    """Of each message: how long the call that receives it was there before the send began."""
    until = pl.min_horizontal("send_start_ns", "receive_done_end_ns")
    return (
        list_messages(run)
        .drop_nulls("receive_done_start_ns")
        .select(
            pattern=pl.lit(LATE_SENDER),
            process="receiver",
            peer="sender",
            rank="receive_done_rank",
            peer_place="send_rank",
            host_op_id="receive_done_host_op_id",
            start_ns="receive_done_start_ns",
            call_end_ns="receive_done_end_ns",
            wait_ns=until - pl.col("receive_done_start_ns"),
            peer_op_id="send_host_op_id",
            bytes="bytes",
        )
    )


def _find_late_receivers(run: Run) -> pl.DataFrame:
    """Of each message whose send was going on when its receive was posted: how long until then."""
    return (
        list_messages(run)
        .drop_nulls("send_done_start_ns")
        .filter(pl.col("send_done_end_ns") > pl.col("receive_start_ns"))
        .select(
            pattern=pl.lit(LATE_RECEIVER),
            process="sender",
            peer="receiver",
            rank="send_done_rank",
            peer_place="receive_rank",
            host_op_id="send_done_host_op_id",
            start_ns="send_done_start_ns",
            call_end_ns="send_done_end_ns",
            wait_ns=pl.col("receive_start_ns") - pl.col("send_done_start_ns"),
            peer_op_id="receive_host_op_id",
            bytes="bytes",
        )
    )


def _find_collective_waits(run: Run) -> pl.DataFrame:
    members = list_mpi_collectives(run)
    by_start = pl.struct("start_ns", "process", "host_op_id", "rank")
    of_others = by_start.filter(pl.col("process") != pl.col("root_rank"))
    met = members.group_by("meeting").agg(
        last=by_start.sort_by("start_ns").last(),
        at_root=by_start.filter(pl.col("process") == pl.col("root_rank")).first(),
        first_other=of_others.sort_by(
            pl.col("start_ns").filter(pl.col("process") != pl.col("root_rank"))
        ).first(),
    )
    is_root = (pl.col("process") == pl.col("root_rank")).fill_null(value=False)
    pattern = pl.col("pattern")
    awaited = (
        pl.when(pattern.is_in([BARRIER, ALL_TO_ALL]))
        .then("last")
        .when((pattern == ROOT_TO_ALL) & ~is_root)
        .then("at_root")
        .when((pattern == ALL_TO_ROOT) & is_root)
        .then("first_other")
    )
    names = {
        BARRIER: AT_BARRIER,
        ALL_TO_ALL: AT_ALL,
        ROOT_TO_ALL: LATE_BROADCAST,
        ALL_TO_ROOT: EARLY_REDUCE,
    }
    until = pl.min_horizontal(pl.col("awaited").struct.field("start_ns"), "end_ns")
    return (
        members.join(met, on="meeting")
        .with_columns(awaited=awaited)
        .filter(pl.col("awaited").struct.field("start_ns").is_not_null())
        .select(
            pattern=pattern.replace_strict(names, return_dtype=pl.String),
            process="process",
            peer=pl.col("awaited").struct.field("process"),
            rank="rank",
            peer_place=pl.col("awaited").struct.field("rank"),
            host_op_id="host_op_id",
            start_ns="start_ns",
            call_end_ns="end_ns",
            wait_ns=until - pl.col("start_ns"),
            peer_op_id=pl.col("awaited").struct.field("host_op_id"),
            bytes=pl.lit(None, pl.Int64),
        )
    )


def _add_uncertainty(run: Run, waits: pl.DataFrame) -> pl.DataFrame:
    """How far apart the clocks of a wait's two ranks may be, where they were compared."""
    fit = fit_run_clocks(run)
    schema = {"rank": pl.Int64, "component": pl.Int64, "uncertainty_ns": pl.Int64}
    known = pl.DataFrame(schema=schema) if fit is None or fit.is_contradictory else fit.clocks
    mine = known.select("rank", own="component", own_ns="uncertainty_ns")
    theirs = known.select(peer_place="rank", other="component", other_ns="uncertainty_ns")
    shared = list_shared_clocks(run)
    my_host = shared.rename({"host": "my_host", "offset_ns": "my_offset"})
    their_host = shared.rename({"rank": "peer_place", "host": "their_host", "offset_ns": "offset"})
    joined = waits
    for known_of, place in (
        (mine, "rank"),
        (theirs, "peer_place"),
        (my_host, "rank"),
        (their_host, "peer_place"),
    ):
        joined = joined.join(known_of, on=place, how="left", maintain_order="left")
    is_same = pl.col("rank") == pl.col("peer_place")
    on_one_host = (pl.col("my_host") == pl.col("their_host")).fill_null(value=False)
    compared = (pl.col("own") == pl.col("other")).fill_null(value=False)
    return joined.with_columns(
        is_comparable=is_same | on_one_host | compared,
        uncertainty_ns=pl.when(is_same)
        .then(0)
        .when(on_one_host)
        .then((pl.col("my_offset") - pl.col("offset")).abs())
        .when(compared)
        .then(pl.max_horizontal("own_ns", "other_ns")),
    )
