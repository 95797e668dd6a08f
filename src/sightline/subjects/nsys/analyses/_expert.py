"""Parts that the analyses named after the rules of `nsys analyze` share."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import Column, number, real, text
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import (
    MB,
    limit_rows,
    list_device_ops,
    move_to_session_time,
    name_memory_kind,
)

COPIES = (
    number("Duration (ns)", "duration on the device", "ns"),
    number("Start (ns)", "start on the device, since the session began", "ns"),
    text("Src Kind", "source memory"),
    text("Dst Kind", "destination memory"),
    real("Bytes (MB)", "size", "MB"),
    number("PID", "process"),
    number("Device ID", "device"),
    number("Context ID", "CUDA context"),
    number("Green Context ID", "green context"),
    number("Stream ID", "stream"),
    text("API Name", "call that asked for it, as recorded"),
)
FILLS = (
    *COPIES[:2],
    text("Memory Kind", "memory that was filled"),
    *COPIES[4:],
)
PLACE = (
    number("PID", "process"),
    number("Device ID", "device"),
    number("Context ID", "CUDA context, where one was used only"),
)


def list_called(run: Run, kind: str) -> pl.DataFrame:
    """Copies or memsets whose call was recorded, with `api`, its name, and in session time."""
    calls = run.table("host_ops").select(launch_id="host_op_id", api="name")
    ops = list_device_ops(run, kind).join(calls, on="launch_id", maintain_order="left")
    return move_to_session_time(ops, run, "start_ns")


def list_longest(ops: pl.DataFrame, columns: tuple[Column, ...], rows: int) -> pl.DataFrame:
    """The longest of these operations, with the columns of COPIES or FILLS."""
    values = {
        "Duration (ns)": pl.col("ns"),
        "Start (ns)": pl.col("start_ns"),
        "Src Kind": name_memory_kind("src_kind"),
        "Dst Kind": name_memory_kind("dst_kind"),
        "Memory Kind": name_memory_kind("dst_kind"),
        "Bytes (MB)": pl.col("bytes") / MB,
        "PID": pl.col("pid"),
        "Device ID": pl.col("device_id"),
        "Context ID": pl.col("context_id"),
        "Green Context ID": pl.col("green_context_id"),
        "Stream ID": pl.col("stream_id"),
        "API Name": pl.col("api"),
    }
    longest = ops.sort("ns", "start_ns", "device_op_id", descending=[True, False, False])
    return limit_rows(longest, rows).select(values[c.name].alias(c.name) for c in columns)


def place_operations(run: Run) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All operations by rank, pid and device, and the window of each: first start to last end.

    The window also has `context_id` where there is one only.
    """
    ops = list_device_ops(run, "kernel", "memcpy", "memset", "graph").with_columns(
        pl.col("pid").fill_null(-1)
    )
    windows = (
        ops.group_by("rank", "recording_id", "pid", "device_id")
        .agg(
            window_start_ns=pl.col("start_ns").min(),
            window_end_ns=pl.col("end_ns").max(),
            context_id=pl.when(pl.col("context_id").n_unique() == 1).then(
                pl.col("context_id").first()
            ),
        )
        .sort("rank", "pid", "device_id")
    )
    return ops, windows
