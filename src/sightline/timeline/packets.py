"""TCP packets from the thread that sent them to the CPU that received them.

A packet is known by what its TCP header says: ports, sequence and acknowledgement numbers and
control bits, which Trace Compass goes by as well (its TcpEventKey has no ports). Where several look
alike (repeated, or passed on by a bridge), none of them is matched: which is which was not
recorded.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import take_rows
from sightline.core.model.run import Run
from sightline.timeline.sleeps import NETWORK

_HEADER = ["source_port", "destination_port", "sequence", "acknowledged", "tcp_flags"]
_END = ["rank", "recording_id", "tid", "cpu", "time_ns"]


def match_packets(run: Run) -> pl.DataFrame:
    """TCP packets that were recorded at both ends, made once for a run.

    Columns: rank, recording_id, tid, cpu and time_ns of the receipt, and the same of the sending
    as `sender_rank` and so on. `sender_tid` is null where an interrupt sent it, or nobody knows.
    `packet` is the receipt's row in the table.
    """
    return run.once(_match)


def _match(run: Run) -> pl.DataFrame:
    packets = run.table("packets").with_row_index("packet").drop_nulls(_HEADER)
    once = pl.len().over(*_HEADER, "direction") == 1
    packets = packets.filter(once).select(*_HEADER, *_END, "packet", "direction")
    sent = packets.filter(pl.col("direction") == "sent")
    by_thread = ~_find_interrupted(run, sent) & (sent.get_column("tid") > 0)
    sent = sent.with_columns(tid=pl.when(by_thread).then("tid"))
    received = packets.filter(pl.col("direction") == "received").drop("direction")
    named = sent.select(*_HEADER, *(pl.col(name).alias(f"sender_{name}") for name in _END))
    return received.join(named, on=_HEADER, maintain_order="left").drop(_HEADER)


def find_senders(run: Run, sleeps: pl.DataFrame) -> pl.DataFrame:
    """For each sleep of `list_sleeps`, the thread whose packet ended it, and when it sent that.

    It is the packet that came last on the waking CPU, if that was in the interrupt that woke.
    Columns: sender_rank, sender_recording_id, sender_tid, sender_time_ns; null where not known.
    """
    received = run.table("packets").with_row_index("packet")
    received = received.filter(pl.col("direction") == "received")
    row = find_latest(
        sleeps.rename({"waker_cpu": "cpu"}), "end_ns", received, "time_ns",
        ["rank", "recording_id", "cpu"],
    )  # fmt: skip
    last = take_rows(received.select("packet", "time_ns"), row)
    is_cause = (sleeps.get_column("source") == NETWORK) & (
        last.get_column("time_ns") >= sleeps.get_column("source_ns")
    )
    cause = last.select(packet=pl.when(is_cause).then("packet"))
    senders = match_packets(run).drop_nulls("sender_tid")
    columns = ["sender_rank", "sender_recording_id", "sender_tid", "sender_time_ns"]
    return cause.join(
        senders.select("packet", *columns), on="packet", how="left", maintain_order="left"
    ).select(columns)


def _find_interrupted(run: Run, packets: pl.DataFrame) -> pl.Series:
    """For each packet whether its CPU handled an interrupt at that time."""
    found = pl.repeat(False, packets.height, dtype=pl.Boolean, eager=True)
    at = packets.get_column("time_ns")
    # Interrupts of one kind do not nest on a CPU.
    for _, known in run.table("interrupts").group_by("kind"):
        row = find_latest(packets, "time_ns", known, "start_ns", ["rank", "recording_id", "cpu"])
        ends = take_rows(known.select("end_ns"), row).get_column("end_ns")
        found = found | (ends >= at).fill_null(value=False)
    return found
