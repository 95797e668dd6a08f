"""Messages and collectives of MPI, matched across ranks by MPI's own order.

MPI 4.1, 3.5: messages do not overtake each other. So of one sender, receiver, tag and communicator
the k-th message that is sent is the k-th that is received, in the order in which receives are
posted; and all ranks of a communicator call its collectives in one order (5.1). Where more was
sent than received, or the opposite, a part of the messages was not recorded (or cancelled), and
none of their like is matched.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows, take_rows
from sightline.core.model.run import Run

# Collectives that return at once, and calls that agree on a communicator or a window.
_AT_ONCE = r"^MPI_I[a-z]"
# What a call waits for, by Scalasca's lists (Scalasca 2.5, src/scout/generator/MPI.pattern).
BARRIER, ALL_TO_ALL, ROOT_TO_ALL, ALL_TO_ROOT = "barrier", "n x n", "1 to n", "n to 1"
_COLLECTIVES = {
    BARRIER: r"^MPI_Barrier$",
    ALL_TO_ALL: r"^MPI_(?:Allreduce|Allgatherv?|Alltoall|Reduce_scatter(?:_block)?)$",
    ROOT_TO_ALL: r"^MPI_(?:Bcast|Scatterv?)$",
    ALL_TO_ROOT: r"^MPI_(?:Reduce|Gatherv?)$",
}
_ENVELOPE = ["group", "tag", "sender", "receiver"]
# What a receive's completion knows better than its post: of any rank, with any tag.
_ENVELOPE_FIELDS = ("group", "tag", "peer_rank", "bytes")
# A call, as `host_op_id`, name and times, for each part that it has in a message.
_PARTS = ("host_op_id", "name", "start_ns", "end_ns", "recording_id", "rank")


def list_mpi_calls(run: Run) -> pl.DataFrame:
    """What MPI calls communicate, with their name, thread and times, in order of time.

    `process` is the rank in the world: as recorded, else that of the recording.
    """
    return run.once(_list_calls)


def _list_calls(run: Run) -> pl.DataFrame:
    events = run.table("mpi_events")
    host = run.table("host_ops", ["host_op_id", "pid", "tid", "name", "start_ns", "end_ns"])
    rows = find_rows(host.get_column("host_op_id"), events.get_column("host_op_id"))
    calls = take_rows(host.select("pid", "tid", "name", "start_ns", "end_ns"), rows)
    return (
        events.hstack(calls)
        .drop_nulls("start_ns")
        .with_columns(
            process=pl.coalesce("mpi_rank", "rank"),
            # MPI_Recv_c is MPI_Recv with a larger count (MPI 4.1, 2.5.8).
            routine=pl.col("name").cast(pl.String).str.replace("_c$", ""),
        )
        .sort("start_ns", "host_op_id", maintain_order=True)
    )


def measure_processes(run: Run) -> pl.DataFrame:
    """How long each MPI process was recorded, from its first host operation to its last one's end.

    Columns: process, rank, pid, start_ns, span_ns.
    """
    processes = list_mpi_calls(run).select("process", "rank", "pid").unique()
    spans = (
        run.scan("host_ops")
        .group_by("rank", "pid")
        .agg(pl.col("start_ns").min(), end_ns=pl.col("end_ns").max())
        .collect()
    )
    return (
        processes.join(spans, on=["rank", "pid"], nulls_equal=True)
        .group_by("process")
        .agg(
            pl.col("rank", "pid").first(),
            pl.col("start_ns").min(),
            span_ns=pl.col("end_ns").max() - pl.col("start_ns").min(),
        )
        .sort("process")
    )


def count_ranks(run: Run) -> int:
    """How many ranks the job has: those recorded, or those of its largest communicator."""
    calls = list_mpi_calls(run)
    largest = calls.get_column("group_size").max()
    return max(calls.get_column("process").n_unique(), largest if isinstance(largest, int) else 0)


def list_mpi_anchors(run: Run) -> pl.DataFrame:
    """Ends of collectives that no rank leaves before all have come, of several recordings.

    Columns: rank (of the recording), meeting, group, members, start_ns (of the last to come) and
    end_ns (of the last to leave).
    """
    members = list_mpi_collectives(run).filter(pl.col("pattern").is_in([BARRIER, ALL_TO_ALL]))
    return (
        members.group_by("meeting", "rank")
        .agg(pl.col("group").first(), pl.col("start_ns").max(), pl.col("end_ns").max())
        .filter(pl.len().over("meeting") > 1)
        .with_columns(members=pl.lit(None, pl.String), meeting=pl.col("meeting").cast(pl.Int64))
        .sort("meeting", "rank")
    )


def list_messages(run: Run) -> pl.DataFrame:
    """One row per message that was sent and received, in order of its sending.

    Columns: group, tag, sender, receiver, bytes, and of each of the calls that send it and that
    receive it (`send`, `receive`; `_done` is the one that waits for it to be done, which is the
    same for a call that does not return at once; null where none does) host_op_id, name, start_ns,
    end_ns, recording_id and rank, as `send_start_ns`, `receive_done_end_ns` and so on.
    """
    return run.once(_match_messages)[0]


def count_unmatched(run: Run) -> int:
    """How many sends and receives have no other side in the recordings."""
    return run.once(_match_messages)[1]


def _match_messages(run: Run) -> tuple[pl.DataFrame, int]:
    calls = list_mpi_calls(run)
    sides = _join_completions(calls)
    sends = _number_messages(sides.filter(pl.col("direction") == "send"), "process", "peer_rank")
    receives = _number_messages(
        sides.filter(pl.col("direction") == "receive"), "peer_rank", "process"
    )
    count = sends.group_by(_ENVELOPE).agg(sent=pl.len())
    both = receives.group_by(_ENVELOPE).agg(received=pl.len()).join(count, on=_ENVELOPE)
    both = both.filter(pl.col("sent") == pl.col("received"))
    names = [f"{side}{part}" for side in ("", "done_") for part in _PARTS]
    sent = sends.select(*_ENVELOPE, "nth", "bytes", **{f"send_{n}": n for n in names})
    received = receives.select(*_ENVELOPE, "nth", **{f"receive_{n}": n for n in names})
    matched = (
        sent.join(both, on=_ENVELOPE, how="semi")
        .join(received, on=[*_ENVELOPE, "nth"])
        .drop("nth")
        .sort("send_start_ns", "send_host_op_id")
    )
    wild = sides.filter(pl.col("direction").is_not_null()).height
    return matched, wild - 2 * matched.height


def _join_completions(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls that send or receive, with the one that completes each as `done_…`."""
    parts = [*_PARTS, *_ENVELOPE_FIELDS]
    whole = calls.filter(pl.col("stage") == "whole").with_columns(
        pl.col(name).alias(f"done_{name}") for name in parts
    )
    posted = calls.filter(pl.col("stage") == "posted")
    by = ["recording_id", "process", "request"]
    # A request's number is used again after its message: each completion is of the latest post,
    # and of several completions the first counts.
    ends = calls.filter(pl.col("stage") == "completed", pl.col("request").is_not_null())
    numbered = posted.with_row_index("post").drop_nulls("request")
    ended = (
        ends.select(*by, "start_ns", **{f"done_{name}": name for name in parts})
        .sort("start_ns")
        .join_asof(
            numbered.select(*by, "start_ns", "post").sort("start_ns"),
            on="start_ns",
            by=by,
            check_sortedness=False,
        )
        .drop_nulls("post")
        .unique("post", keep="first", maintain_order=True)
        .drop(*by, "start_ns")
    )
    joined = posted.with_row_index("post").join(ended, on="post", how="left").drop("post")
    sides = pl.concat([whole, joined], how="diagonal")
    # Of a receive from any rank, only its completion knows whose message it was.
    return sides.with_columns(
        pl.coalesce(f"done_{name}", name).alias(name) for name in _ENVELOPE_FIELDS
    )


def _number_messages(sides: pl.DataFrame, sender: str, receiver: str) -> pl.DataFrame:
    """One side's messages with their sender, receiver, and number among those of one envelope."""
    known = sides.with_columns(sender=pl.col(sender), receiver=pl.col(receiver))
    known = known.drop_nulls(_ENVELOPE).sort("start_ns", "host_op_id", maintain_order=True)
    return known.with_columns(nth=pl.int_range(pl.len()).over(_ENVELOPE))


def list_mpi_collectives(run: Run) -> pl.DataFrame:
    """One row per rank and collective of several ranks: `meeting`, `pattern`, and the call.

    Only those in which all ranks of the communicator were recorded equally often; of calls that
    wait for all, for the root, or at the root (`pattern`).
    """
    return run.once(_match_collectives)


def _match_collectives(run: Run) -> pl.DataFrame:
    calls = list_mpi_calls(run).filter(
        pl.col("kind") == "collective", ~pl.col("routine").str.contains(_AT_ONCE)
    )
    pattern = pl.coalesce(
        pl.when(pl.col("routine").str.contains(regex)).then(pl.lit(name))
        for name, regex in _COLLECTIVES.items()
    )
    members = (
        calls.with_columns(pattern=pattern)
        .drop_nulls(["pattern", "group", "group_size"])
        .filter(pl.col("group_size") > 1)
        .with_columns(nth=pl.int_range(pl.len()).over("process", "group", "routine"))
    )
    whole = (pl.col("process").n_unique() == pl.col("group_size").max()) & (
        pl.len() == pl.col("group_size").max()
    )
    # Where one rank has more of them than another, a part was not recorded: k-th is not k-th.
    each = members.group_by("group", "routine", "process").len()
    even = (
        each.group_by("group", "routine").agg(pl.col("len").n_unique()).filter(pl.col("len") == 1)
    )
    met = (
        members.join(even, on=["group", "routine"], how="semi")
        .group_by("group", "routine", "nth")
        .agg(whole=whole, first=pl.col("start_ns").min())
        .filter("whole")
        .sort("first", "group", "routine", "nth")
        .with_row_index("meeting")
        .drop("whole", "first")
    )
    return members.join(met, on=["group", "routine", "nth"]).sort("meeting", "process").drop("nth")
