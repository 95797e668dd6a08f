"""Which communication kernels of different ranks are one collective: the one answer in the house.

Members are matched by process group (its name and its ranks), kind of operation and, where all of
them carry it, the group's sequence number (`grade` "sequence"); else by order within the group
("order"): the k-th of a kind on one rank is the k-th on the others. The k-th send of one rank to
another is the other's k-th receive from it. Recordings that describe no
collective are matched by the kernel's name and order, where they end together ("name").

A collective is concluded from where all of its ranks have one kernel in it, and none ended before
another began: there the clocks disagree or the pairing is wrong.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.window import select_starting_in
from sightline.core.model.run import Run
from sightline.timeline.classes import classify_run, is_communication

# Collectives of several ranks are matched by order where so many end so close together: twice what
# was seen on one machine with clocks of its own (see infer_collectives).
END_TOGETHER_NS, MOST_TOGETHER, LEAST_ALIKE = 100_000, 0.9, 3

# Kinds by what operations and kernels are called: PyTorch's ("_allgather_base"), NCCL's functions
# and kernels ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"), MPI's. The first that fits counts.
_KINDS = {
    "all_reduce": r"all_?reduce|cross_device_reduce|quickreduce",
    "reduce_scatter": r"reduce_?scatter",
    "all_gather": r"all_?gather",
    "all_to_all": r"all_?to_?all",
    "broadcast": r"broadcast|bcast",
    "send_recv": r"send_?recv",
    "send": r"send",
    "recv": r"recv|receive",
    "barrier": r"barrier",
    "gather": r"gather",
    "scatter": r"scatter",
    "reduce": r"reduce",
}
_WHOLE_ARRAY = ("reduce_scatter", "all_gather", "all_to_all")
_ONE = ("broadcast", "reduce", "send", "recv", "send_recv")
SEQUENCE, ORDER, NAME = "sequence", "order", "name"
_GROUP = ["group", "members"]
_PLACE = ["rank", "device_id"]


def name_kind(op: pl.Expr) -> pl.Expr:
    """The kind of operation, in one spelling, that an operation's or a kernel's name says."""
    kind = pl.lit(None, pl.String)
    for name, pattern in reversed(_KINDS.items()):
        kind = pl.when(op.str.contains(f"(?i){pattern}")).then(pl.lit(name)).otherwise(kind)
    return kind


def bus_factor(op: pl.Expr, group_size: pl.Expr) -> pl.Expr:
    """What nccl-tests multiplies the algorithm bandwidth with, null where it is unknown.

    NVIDIA/nccl-tests, doc/PERFORMANCE.md; its gather and scatter have the factor (n-1)/n too
    (src/gather.cu, src/scatter.cu).
    """
    kind, n = name_kind(op), group_size
    return (
        pl.when(kind == "all_reduce")
        .then(2 * (n - 1) / n)
        .when(kind.is_in([*_WHOLE_ARRAY, "gather", "scatter"]))
        .then((n - 1) / n)
        .when(kind.is_in(_ONE))
        .then(pl.lit(1.0))
    )


def describe_collectives(collectives: pl.DataFrame) -> pl.DataFrame:
    """One row per kernel: what it is part of, and `bytes`, the size of its whole array.

    Of sends and receives whose other rank is known, `source` and `target`.
    """
    # Other recordings number the peer within a group whose members they do not list.
    known = pl.col("group_ranks").list.contains(pl.col("peer"))
    sends, receives = (pl.col("op") == op for op in ("send", "recv"))
    return collectives.unique("device_op_id").select(
        "device_op_id",
        "op",
        "group",
        "group_size",
        "sequence",
        "dtype",
        bytes=pl.max_horizontal("bytes_in", "bytes_out"),
        members=pl.col("group_ranks").cast(pl.List(pl.String)).list.join(","),
        source=pl.when(known & sends).then("rank").when(known & receives).then("peer"),
        target=pl.when(known & sends).then("peer").when(known & receives).then("rank"),
    )


def infer_collectives(ops: pl.DataFrame, *, together: bool = True) -> pl.DataFrame:
    """Collectives of recordings that describe none: the k-th of a name is the same on every rank.

    Taken so where all ranks have as many of that name and, if asked, most of them end `together`:
    those of Megatron's recording of eight ranks do within 49 µs. Sends and receives pair up
    otherwise.
    """
    kernels = ops.filter(pl.col("kind") == "kernel", is_communication(pl.col("name")))
    kernels = kernels.filter(~pl.col("name").str.contains(r"(?i)send|recv"))
    ranks = ops.get_column("rank").n_unique()
    counted = kernels.group_by("name", "rank").len().group_by("name")
    same = counted.agg(ranks=pl.len(), most=pl.col("len").max(), least=pl.col("len").min())
    same = same.filter(
        (pl.col("ranks") == ranks) & (pl.col("most") == pl.col("least")),
        pl.col("least") >= LEAST_ALIKE,
    )
    members = kernels.join(same.select("name"), on="name", how="semi").sort("start_ns")
    if together:
        members = members.with_columns(nth=pl.int_range(pl.len()).over("rank", "name"))
        apart = members.group_by("name", "nth").agg(
            apart=pl.col("end_ns").max() - pl.col("end_ns").min()
        )
        near = apart.group_by("name").agg(share=(pl.col("apart") <= END_TOGETHER_NS).mean())
        held = near.filter(pl.col("share") >= MOST_TOGETHER).select("name")
        members = members.join(held, on="name", how="semi")
    nothing = pl.lit(None, pl.String)
    return members.select(
        "device_op_id",
        "rank",
        op="name",
        group=nothing,
        group_size=pl.lit(ranks, pl.Int64),
        sequence=pl.lit(None, pl.Int64),
        dtype=nothing,
        bytes=pl.lit(None, pl.Int64),
        members=nothing,
        source=pl.lit(None, pl.Int64),
        target=pl.lit(None, pl.Int64),
    )


def pair_members(
    ops: pl.DataFrame, described: pl.DataFrame, *, together: bool = True
) -> pl.DataFrame:
    """All kernels of collectives with the `meeting` they would be, by no look at the clock.

    `described` is what `describe_collectives` gives; where it is empty, they are inferred.
    One row per kernel: device_op_id, rank, start_ns, end_ns, the description, `grade`, `meeting`,
    and `whole`: whether all ranks of the group have exactly one kernel in it.
    """
    is_named = described.is_empty()
    if is_named:
        described = infer_collectives(ops, together=together).drop("rank")
    members = ops.select("device_op_id", *_PLACE, "start_ns", "end_ns").join(
        described, on="device_op_id"
    )
    is_pair = pl.col("source").is_not_null()
    members = members.with_columns(act=pl.when(~is_pair).then("op"))
    key = [*_GROUP, "act", "source", "target"]
    # Sends are counted apart from collectives, by each version in its own way: order tells.
    numbered = (pl.col("sequence").is_not_null() & ~is_pair).all().over(key)
    members = (
        members.sort("start_ns", "device_op_id")
        .with_columns(
            grade=pl.lit(NAME)
            if is_named
            else pl.when(numbered).then(pl.lit(SEQUENCE)).otherwise(pl.lit(ORDER)),
            place=pl.when(numbered).then("sequence"),
        )
        # Operations that a program coalesces share a sequence number: their order tells them apart.
        .with_columns(nth=pl.int_range(pl.len()).over("rank", *key, "place"))
    )
    key = [*key, "place", "nth"]
    met = members.group_by(key).agg(
        first=pl.col("end_ns").max(),
        n=pl.len(),
        ranks=pl.col("rank").n_unique(),
        size=pl.when(is_pair.any()).then(2).otherwise(pl.col("group_size").max()),
    )
    met = met.sort("first", *key).with_row_index("meeting")
    whole = (
        (pl.col("n") == pl.col("ranks"))
        & (pl.col("n") > 1)
        & (pl.col("n") == pl.col("size")).fill_null(value=True)
    )
    met = met.select(*key, pl.col("meeting").cast(pl.Int64), whole=whole)
    return members.join(met, on=key, nulls_equal=True).drop("place", "nth", "act")


def match_collectives(ops: pl.DataFrame, collectives: pl.DataFrame) -> pl.DataFrame:
    """Which operations of different ranks are one collective: `meeting`, where clocks allow it.

    A collective ends at `meeting_lag_ns` after the last of its members has started.
    """
    schema = {"device_op_id": pl.Int64, "meeting": pl.Int64, "meeting_lag_ns": pl.Int64}
    if ops.get_column("rank").n_unique() < 2:
        return pl.DataFrame(schema=schema)
    ops = ops.with_columns(pl.col("name").cast(pl.String))  # of categories, patterns find none
    members = pair_members(ops, describe_collectives(collectives)).filter("whole")
    last, first_end = pl.col("start_ns").max(), pl.col("end_ns").min()
    return (
        members.with_columns(last=last.over("meeting"), fits=(last < first_end).over("meeting"))
        .filter("fits")
        .sort("last", "meeting", "device_op_id")
        .select(
            "device_op_id",
            pl.col("meeting").rank("dense").cast(pl.Int64) - 1,
            meeting_lag_ns=pl.col("end_ns") - pl.col("last"),
        )
    )


def list_members(run: Run) -> pl.DataFrame:
    """All kernels of a run's collectives, one row each, with what all members have in common.

    Of matched ones (`matched`): `last_ns`, when the last rank's began; `wait_ns`, how long this
    one was there before; `transfer_ns`, the duration of the member that was there shortest: it is
    the last to come, and its own clock alone measured it.
    """
    return run.once(_list_members)


def _list_members(run: Run) -> pl.DataFrame:
    ops = classify_run(run)
    members = pair_members(ops, describe_collectives(run.table("collectives")))
    last, first_end = pl.col("start_ns").max(), pl.col("end_ns").min()
    return (
        members.with_columns(
            matched=pl.col("whole") & (last < first_end).over("meeting"),
            last_ns=last.over("meeting"),
            ns=pl.col("end_ns") - pl.col("start_ns"),
        )
        .with_columns(transfer_ns=pl.col("ns").min().over("meeting"))
        .with_columns(pl.when("matched").then(c) for c in ("last_ns", "transfer_ns"))
        .with_columns(wait_ns=pl.col("last_ns") - pl.col("start_ns"))
    )


def list_collectives(run: Run) -> pl.DataFrame:
    """One row per matched collective that begins in the window, on any rank, in order of time.

    `skew_ns` is the last start less the first; `waited_ns` what all ranks waited together; `adds`
    how much earlier all could have begun without the `last_rank`. Bandwidths are null where the
    size or the group's size is not known.
    """
    matched = list_members(run).filter("matched")
    inside = select_starting_in(matched, run.ask("windows")).select("meeting").unique()
    members = matched.join(inside, on="meeting", how="semi")
    starts = pl.col("start_ns").sort(descending=True)
    rate = pl.when(pl.col("transfer_ns") > 0).then(pl.col("bytes") / pl.col("transfer_ns"))
    return (
        members.sort("start_ns", "device_op_id")
        .group_by("meeting", maintain_order=True)
        .agg(
            pl.when(pl.col("source").is_not_null())
            .then(pl.lit("send_recv"))
            .otherwise("op")
            .first()
            .alias("op"),
            pl.col("group", "members", "grade", "sequence", "dtype").first(),
            pl.col("bytes").max(),
            ranks=pl.len(),
            group_size=pl.col("group_size").max(),
            start_ns=pl.col("start_ns").min(),
            last_start_ns=pl.col("start_ns").max(),
            end_ns=pl.col("end_ns").max(),
            transfer_ns=pl.col("transfer_ns").first(),
            waited_ns=pl.col("wait_ns").sum(),
            last_rank=pl.col("rank").last(),
            adds_ns=starts.first() - starts.get(1, null_on_oob=True),
        )
        .with_columns(
            kind=name_kind(pl.col("op")),
            group_size=pl.coalesce("group_size", "ranks"),
            skew_ns=pl.col("last_start_ns") - pl.col("start_ns"),
            algorithm_bandwidth_gb_per_s=rate,  # bytes / ns = GB/s
        )
        .with_columns(
            bus_bandwidth_gb_per_s=pl.col("algorithm_bandwidth_gb_per_s")
            * bus_factor(pl.col("op"), pl.col("group_size"))
        )
        .sort("start_ns", "meeting")
    )
