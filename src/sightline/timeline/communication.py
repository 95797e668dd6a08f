"""What the rules about communication share: exposed time split into waiting and transfer."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import (
    clip_intervals,
    measure_cover_between,
    partition_windows,
)
from sightline.core.algebra.lookup import match_names
from sightline.core.model.run import Run
from sightline.timeline.classes import COMMUNICATION, COMPUTE, classify_run, list_class
from sightline.timeline.collectives import (
    bus_factor,
    describe_collectives,
    match_collectives,
)
from sightline.timeline.host_ranges import find_host_ancestor, list_host_names

_BY = ["rank", "device_id"]
# Send and receive are one kernel in NCCL and RCCL, and an all-to-all runs the same one: who asked
# for it tells them apart (PyTorch's operators and the annotations of its process groups).
SEND_RECV = r"(?i)sendrecv|send_recv"
_ASKED = r"(?i)^(?:c10d::|nccl:)(?:send|recv)|isend|irecv"
# DDP's first bucket is 1 MiB, later ones 25 MiB (torch.nn.parallel.DistributedDataParallel): below
# the smaller of the two a collective is not worth its start.
SMALL_BYTES = 1 << 20


PARTS = ("pipeline", "small", "slow", "transfer", "waiting")
# A transfer is slow below half of its group's best tenth, of five like ones or more (ours, as
# slow-variant's twice the median: so that usual spread is none).
_LIKE, _SLOW_RATIO = 5, 0.5
# A collective whose other ranks were not recorded waits for them where it takes ten times what most
# of three and more alike take (ours: a link that others use halves a rate, and no more), and a
# tenth of a millisecond at least.
_FEW, _WAIT_TIMES, _LEAST_WAIT_NS = 3, 10, 100_000
_LENGTH = pl.col("end_ns") - pl.col("start_ns")


def list_communication(run: Run) -> pl.DataFrame:
    """Communication kernels with `part`, and `meeting` and the `last` start of it where known.

    Of a rank whose others were not recorded `last` is estimated where one of many alike takes far
    longer than they do; `alike_ns` is what these take.

    Of slow ones, `factor` is what would remain of the transfer at the group's own best bandwidth.
    """
    return run.once(_list_communication)


def _list_communication(run: Run) -> pl.DataFrame:
    ops = classify_run(run)
    comm = ops.filter(pl.col("class_") == COMMUNICATION)
    known = describe_collectives(run.table("collectives")).select(
        "device_op_id", "op", "group", "group_size", size="bytes"
    )
    comm = comm.join(known, on="device_op_id", how="left")
    met = match_collectives(ops, run.table("collectives")).drop("meeting_lag_ns")
    comm = comm.join(met, on="device_op_id", how="left").with_columns(
        last=pl.when(pl.col("meeting").is_not_null())
        .then(pl.col("start_ns").max().over("meeting"))
        .otherwise("start_ns"),
        alike_ns=_measure_alike(),
    )
    comm = comm.with_columns(
        part=pl.when(
            pl.lit(_is_asked_to_send(comm, run))
            | pl.col("op").is_in(["send", "recv"]).fill_null(value=False)
        )
        .then(pl.lit("pipeline"))
        .when(pl.col("size") <= SMALL_BYTES)
        .then(pl.lit("small"))
        .otherwise(pl.lit("transfer"))
    )
    # One of many that send the same and takes many times as long waits for a rank of which nothing
    # was recorded: what it takes by itself is what the others take.
    alone = pl.col("meeting").is_null() & (pl.col("part") != "pipeline")
    waits = alone & (_WAIT_TIMES * pl.col("alike_ns") < _LENGTH) & (_LENGTH >= _LEAST_WAIT_NS)
    comm = comm.with_columns(
        last=pl.when(waits).then(pl.col("end_ns") - pl.col("alike_ns")).otherwise("last")
    )
    return comm.join(
        _find_slow(comm), on="meeting", how="left", maintain_order="left"
    ).with_columns(
        part=pl.when((pl.col("part") == "transfer") & pl.col("factor").is_not_null())
        .then(pl.lit("slow"))
        .otherwise("part")
    )


def _measure_alike() -> pl.Expr:
    """The median length (ns) of the rank's collectives of one kind, group and size; else null."""
    like = [*_BY, "op", "group", "group_size", "size"]
    usual = _LENGTH.median().over(like).round().cast(pl.Int64)
    return pl.when(pl.col("size").is_not_null() & (pl.len().over(like) >= _FEW)).then(usual)


def _find_slow(comm: pl.DataFrame) -> pl.DataFrame:
    """Matched collectives far below their group's best: `bus` and `best` GB/s, and `factor`."""
    like = ["group", "op", "group_size", "power"]
    factor = bus_factor(pl.col("op"), pl.col("group_size")).fill_null(1.0)
    return (
        comm.filter(pl.col("part") == "transfer", pl.col("size") > 0)
        .drop_nulls(["meeting", "group_size"])
        .group_by("meeting")
        .agg(
            pl.col("group", "op", "group_size").first(),
            pl.col("size").max(),
            ns=(pl.col("end_ns") - pl.col("start_ns")).min(),
        )
        .filter(pl.col("ns") > 0)
        .with_columns(
            bus=pl.col("size") * factor / pl.col("ns"), power=pl.col("size").log(2).floor()
        )
        .with_columns(
            best=pl.col("bus").quantile(0.9, "lower").over(like), alike=pl.len().over(like)
        )
        .filter(pl.col("alike") >= _LIKE, pl.col("bus") < _SLOW_RATIO * pl.col("best"))
        .select("meeting", "bus", "best", factor=pl.col("bus") / pl.col("best"))
    )


def _is_asked_to_send(comm: pl.DataFrame, run: Run) -> pl.Series:
    """Which send-and-receive kernels were launched from a send or a receive."""
    kernels = match_names(comm, SEND_RECV)
    if not kernels.any():
        return kernels
    ids = run.table("host_ops", ["host_op_id"]).get_column("host_op_id")
    asked = ids.filter(list_host_names(run).match(_ASKED))
    if asked.is_empty():
        return pl.repeat(value=False, n=comm.height, eager=True)
    owner = find_host_ancestor(run, comm.get_column("launch_id"), asked)
    return kernels & owner.is_not_null()


def partition_exposed(run: Run) -> pl.DataFrame:
    """Exposed communication per rank and device, each moment in one of PARTS, ns.

    waiting: this rank's kernel is there, but not every rank's yet (where ranks were matched, or as
    estimated);
    pipeline: send and receive; small: collectives of up to 1 MiB; slow: those far below their
    group's own best bandwidth; transfer: all else.
    """
    computing = list_class(run, COMPUTE, [*_BY, "start_ns", "end_ns"])
    comm = list_communication(run)
    late = (pl.col("part") != "pipeline") & (pl.col("last") > pl.col("start_ns"))
    pieces = pl.concat(
        [
            computing.with_columns(class_=pl.lit(COMPUTE)),
            comm.filter(late).select(*_BY, "start_ns", end_ns="last", class_=pl.lit("waiting")),
            comm.select(
                *_BY,
                start_ns=pl.when(late).then("last").otherwise("start_ns"),
                end_ns="end_ns",
                class_="part",
            ),
        ]
    )
    windows = run.ask("windows")
    parts = partition_windows(clip_intervals(pieces, windows, _BY), windows, _BY, (COMPUTE, *PARTS))
    return parts.select(*_BY, "window_ns", *(f"{part}_ns" for part in PARTS))


def fit_transfers(comm: pl.DataFrame) -> pl.DataFrame:
    """What collectives of one kind take whatever their size, and for each byte.

    Hockney's model (R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20,
    1994), through the fastest of the smallest and of the largest size; `comm` are rows of
    list_communication. Columns: op, group, group_size, latency_ns and ns_per_byte. A kind has a row
    where the largest size is at least twice the smallest (ours: below it noise is as large).
    """
    kind = ["op", "group", "group_size"]
    length = pl.col("end_ns") - pl.max_horizontal("start_ns", "last")
    sizes = (
        comm.filter(pl.col("size") > 0, pl.col("part") != "pipeline")
        .group_by(*kind, "size", pl.coalesce("meeting", -pl.col("device_op_id") - 1))
        .agg(ns=length.min())
        .group_by(*kind, "size")
        .agg(pl.col("ns").min())
        .sort("size")
    )
    ends = sizes.group_by(kind).agg(
        small=pl.col("size").first(),
        least=pl.col("ns").first(),
        largest=pl.col("size").last(),
        most=pl.col("ns").last(),
    )
    per_byte = ((pl.col("most") - pl.col("least")) / (pl.col("largest") - pl.col("small"))).clip(0)
    return (
        ends.filter(pl.col("largest") >= 2 * pl.col("small"))
        .with_columns(ns_per_byte=per_byte)
        .select(
            *kind,
            "ns_per_byte",
            latency_ns=(pl.col("least") - pl.col("small") * pl.col("ns_per_byte")).clip(0),
        )
    )


def overlaps_communication(kernels: pl.DataFrame, run: Run) -> pl.Series:
    """Whether communication ran on the device for at least half of each kernel."""
    comm = list_class(run, COMMUNICATION, [*_BY, "start_ns", "end_ns"])
    if comm.is_empty() or kernels.is_empty():
        return pl.repeat(value=False, n=kernels.height, eager=True)
    beside = measure_cover_between(kernels, "start_ns", "end_ns", comm, _BY)
    return 2 * beside >= (kernels.get_column("end_ns") - kernels.get_column("start_ns"))
