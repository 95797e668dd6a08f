"""What one rank alone tells of transfers: their best rate against the links, and their streams."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.lookup import match_names
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_ns, format_pct, format_several
from sightline.roofline.links import MACHINE_RANKS, find_link
from sightline.timeline.classes import COMPUTE, list_class
from sightline.timeline.communication import SEND_RECV, list_communication
from sightline.timeline.communication_names import PEERS_PATTERN

# Large messages reach about 80 % of the links' rate (NVIDIA/nccl-tests, published all-reduce
# figures); below a tenth of it they take another way, or another's time (ours).
REACHED_PCT, SLOW_LINK_PCT = 80.0, 10.0
# From here on a message's time is its bytes', not its start (nccl-tests: the curves are flat).
LARGE_BYTES = 16 << 20
# A collective that takes no longer is mostly its own start: NCCL's latency over one machine's links
# is 10 to 30 µs (nccl-tests' smallest sizes; ours as a round figure above it).
SHORT_NS = 50_000
_MANY = 100
_LEAST_LIKE = 5  # ours, as for the slow ones of a group (timeline.communication)


@dataclass(frozen=True)
class Rate:
    """The best rate in words; `left` of the transfers' time at the links' own, if far from it."""

    text: str
    left: float | None = None


def find_best_rate(run: Run) -> Rate | None:
    """The best rate of the transfers that take most of the time.

    Of like operations the fastest counts: the others may have waited for other ranks. None where
    sizes were not recorded.
    """
    rows = run.ask("communication").drop_nulls(["bus_bandwidth_gb_per_s", "bytes", "group_size"])
    large = rows.filter(pl.col("bytes") >= LARGE_BYTES)
    rows = (
        (large if large.height else rows)
        .filter(pl.col("min_ns") > 0)
        .sort("kernel_ns", "op", descending=[True, False])
    )
    if rows.is_empty():
        return None
    row = rows.row(0, named=True)
    best = row["bus_bandwidth_gb_per_s"] * row["mean_ns"] / row["min_ns"]
    said = (
        f"the fastest {row['op']} of {format_bytes(row['bytes'])} over {row['group_size']} ranks: "
        f"{format_ns(row['min_ns'])}, bus bandwidth {best:.3g} GB/s"
    )
    link = find_link(run)
    if link is None or row["group_size"] > MACHINE_RANKS:
        return Rate(said)
    pct = 100 * best * 1e9 / link
    said += f", {format_pct(pct)} of the {link / 1e9:.0f} GB/s that this GPU's links have each way"
    is_slow = pct < SLOW_LINK_PCT and row["bytes"] >= LARGE_BYTES
    return Rate(said, pct / REACHED_PCT if is_slow else None)


def describe_waiting(run: Run) -> str | None:
    """Of one rank alone: that most of it is not a transfer, since like operations take far less.

    A collective's kernel runs from its rank's arrival on. Of like ones the fastest waited least:
    what the others take longer is waiting, or another's traffic. Where sizes are not known the
    fastest tenth of those with the same name and grid stands for it (NCCL chooses both by size),
    and they are only said to be alike. Kernels that send and receive are of all sizes: they count
    as transfer.
    """
    comm = list_communication(run).filter(pl.col("meeting").is_null())
    if comm.get_column("rank").n_unique() != 1:
        return None
    length = (pl.col("end_ns") - pl.col("start_ns")).cast(pl.Float64)
    like = ["device_id", "name", "grid_x", "block_x", "op", "group", "size"]
    known = pl.col("size").is_not_null()
    pace = pl.when(known).then(length.min().over(like)).otherwise(length.quantile(0.1).over(like))
    # A kind of which few were recorded has no fastest one.
    is_some = (pl.len().over(like) >= _LEAST_LIKE) & (
        known | ~pl.col("name").str.contains(SEND_RECV)
    )
    pace = pl.when(is_some).then(pl.min_horizontal(pace, length))
    row = comm.select(
        took=length.sum(), at_pace=pace.fill_null(length).sum().round(), known=known.all()
    ).row(0, named=True)
    if not row["took"] or 2 * row["at_pace"] > row["took"]:
        return None
    least, took = format_ns(round(row["at_pace"])), format_ns(round(row["took"]))
    if row["known"]:
        return (
            f"at the pace of the fastest of their kind they would take {least} of {took}: the rest "
            "is waiting for other ranks, or for their traffic"
        )
    return (
        f"at the pace of the fastest tenth they would take {least} of {took}: unless their sizes "
        "differ as much, the rest is waiting for other ranks"
    )


def measure_shared_stream(run: Run) -> float:
    """How much of communication, in % of its time, runs on streams that compute too."""
    lane = ["rank", "device_id", "stream_id"]
    computing = list_class(run, COMPUTE, [*lane, "kind"]).filter(pl.col("kind") == "kernel")
    comm = list_communication(run).select(*lane, ns=pl.col("end_ns") - pl.col("start_ns"))
    shared = comm.join(computing.select(lane).unique(), on=lane, how="semi")
    return 100 * sum_column(shared, "ns") / max(sum_column(comm, "ns"), 1)


def describe_many_short(run: Run) -> str | None:
    """Where sizes are not known: that most collectives are as short as a start is."""
    comm = list_communication(run).filter(pl.col("size").is_null())
    length = comm.select(ns=pl.col("end_ns") - pl.col("start_ns")).get_column("ns")
    median = length.median()
    if comm.height < _MANY or not isinstance(median, int | float) or median > SHORT_NS:
        return None
    return (
        f"{format_several(comm.height, 'operation')} with a median of {format_ns(median)}: most of "
        "that is their start, not their bytes"
    )


def describe_peers_figure(run: Run) -> str | None:
    """What tools count that know NCCL's and RCCL's names alone, where that is less."""
    comm = list_communication(run)
    theirs = comm.filter(match_names(comm, PEERS_PATTERN))
    if theirs.height == comm.height:
        return None
    length = pl.col("end_ns") - pl.col("start_ns")
    return (
        f"by name alone (nccl, rccl), as HolisticTraceAnalysis and TraceLens count, "
        f"{format_ns(theirs.select(length.sum()).item() or 0)} of "
        f"{format_ns(comm.select(length.sum()).item())} were communication"
    )
