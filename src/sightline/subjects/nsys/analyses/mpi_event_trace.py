"""Every MPI call: nsys calls it mpi_event_trace."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, real
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import (
    MB,
    declare_name,
    list_host_ops,
    move_to_session_time,
)

ANALYSIS = Analysis(
    "mpi_event_trace",
    "Which MPI calls were made, one after the other? (as nsys stats)",
    (
        number("Start (ns)", "start, since the session began", "ns"),
        number("End (ns)", "end", "ns"),
        number("Duration (ns)", "duration", "ns"),
        declare_name("Event", "MPI function"),
        number("Pid", "process"),
        number("Tid", "thread"),
        number("Tag", "message tag"),
        number("Rank", "rank of the caller"),
        number("PeerRank", "rank at the other end"),
        number("RootRank", "root of a collective"),
        real("Size (MB)", "size of a message", "MB"),
        real("CollSendSize (MB)", "sent in a collective", "MB"),
        real("CollRecvSize (MB)", "received in a collective", "MB"),
    ),
    needs=("mpi_events",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per call, in order of start."""
    parameters = run.table("mpi_events").drop("rank", "recording_id")
    calls = list_host_ops(run, "mpi").join(parameters, on="host_op_id", how="left")
    return (
        move_to_session_time(calls, run, "start_ns", "end_ns")
        .sort("start_ns", "host_op_id")
        .select(
            pl.col("start_ns").alias("Start (ns)"),
            pl.col("end_ns").alias("End (ns)"),
            pl.col("ns").alias("Duration (ns)"),
            pl.col("name").alias("Event"),
            pl.col("pid").alias("Pid"),
            pl.col("tid").alias("Tid"),
            pl.col("tag").alias("Tag"),
            pl.col("mpi_rank").alias("Rank"),
            pl.col("peer").alias("PeerRank"),
            pl.col("root").alias("RootRank"),
            (pl.col("bytes") / MB).alias("Size (MB)"),
            (pl.col("bytes_sent") / MB).alias("CollSendSize (MB)"),
            (pl.col("bytes_received") / MB).alias("CollRecvSize (MB)"),
        )
    )
