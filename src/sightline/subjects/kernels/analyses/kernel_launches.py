"""How long each launch took, waited and queued."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import count_open_at
from sightline.core.algebra.lookup import find_rows, keep_rows, take_rows
from sightline.core.algebra.order import sort_rows
from sightline.core.algebra.window import select_starting_in
from sightline.core.model.columns import RANK, duration, join, number, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "kernel_launches",
    "How long did each launch take, and how far ahead of the GPU was the host?",
    (
        join("device_op_id", "device_ops.device_op_id", "what was launched"),
        RANK,
        number("device_id", "device", required=True),
        number("stream_id", "stream"),
        text("name", "name of the operation", required=True),
        text("api", "the call that launched it", required=True),
        time("api_start_ns", "start of the call"),
        duration("api_ns", "duration of the call"),
        duration("queue_ns", "from the call's end to the start on the device, at least 0"),
        duration("launch_to_start_ns", "from the call's start to the start on the device"),
        duration("duration_ns", "duration on the device"),
        number(
            "queue_depth",
            "operations launched earlier on the stream and not yet started when the call began",
        ),
    ),
    needs=("device_ops", "host_ops"),
    notes=(
        "Rows are joined by correlation id; operations without a launch call are left out.",
        "A negative launch_to_start_ns means that the two clocks disagree.",
    ),
    worst="api_ns",
)


# Of the many columns of device_ops those that are needed: a join copies all that it is given.
_COLUMNS = (
    "device_op_id",
    "rank",
    "device_id",
    "stream_id",
    "name",
    "start_ns",
    "end_ns",
    "launch_id",
)


def run(run: Run) -> pl.DataFrame:
    """One row per launched operation, in order of launch."""
    host = run.table("host_ops", ["host_op_id", "name", "start_ns", "end_ns"])
    calls = host.select(api="name", api_start_ns="start_ns", api_end_ns="end_ns")
    ops = select_starting_in(run.table("device_ops", _COLUMNS), run.ask("windows"))
    at = find_rows(host.get_column("host_op_id"), ops.get_column("launch_id"))
    launched = keep_rows(ops.hstack(take_rows(calls, at)), at.is_not_null())
    launched = sort_rows(launched, ["api_start_ns", "device_op_id"])
    depth = count_open_at(
        # An operation that "started" before its launch (clocks apart) was never in the queue.
        launched.with_columns(leave=pl.max_horizontal("start_ns", "api_start_ns")),
        ["rank", "device_id", "stream_id"],
        "api_start_ns",
        "leave",
    )
    return launched.select(
        "device_op_id",
        "rank",
        "device_id",
        "stream_id",
        "name",
        "api",
        "api_start_ns",
        api_ns=pl.col("api_end_ns") - pl.col("api_start_ns"),
        queue_ns=(pl.col("start_ns") - pl.col("api_end_ns")).clip(lower_bound=0),
        launch_to_start_ns=pl.col("start_ns") - pl.col("api_start_ns"),
        duration_ns=pl.col("end_ns") - pl.col("start_ns"),
        queue_depth=depth,
    )
