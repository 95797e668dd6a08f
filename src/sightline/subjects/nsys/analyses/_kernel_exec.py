"""The three phases of a kernel: the launching call, the wait in the queue, the run."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import (
    add_kernel_name,
    list_device_ops,
    move_to_session_time,
    strip_api_version,
)

QUEUE_NOTE = (
    "Queue time runs from the end of the launch call to the start of the kernel; a kernel that "
    "starts before its call returns has none."
)


def measure_phases(run: Run, names: str, nvtx_name: int) -> pl.DataFrame:
    """Kernels with their launch call: api, api_ns, queue_ns (or null), ns, total_ns, kernel.

    Times are the session's. Kernels without a recorded launch call are left out.
    """
    calls = run.table("host_ops").select(
        strip_api_version().alias("api"),
        launch_id="host_op_id",
        api_pid="pid",
        tid="tid",
        api_start="start_ns",
        api_end="end_ns",
    )
    wait = pl.col("start_ns") - pl.col("api_end")
    frame = (
        add_kernel_name(run, list_device_ops(run, "kernel"), names, nvtx_name)
        .join(calls, on="launch_id")
        .with_columns(
            api_ns=pl.col("api_end") - pl.col("api_start"),
            queue_ns=pl.when(wait >= 0).then(wait),
            total_ns=pl.max_horizontal("api_end", "end_ns") - pl.col("api_start"),
        )
    )
    return move_to_session_time(frame, run, "start_ns", "api_start", "api_end")
