"""Every gap on a device, with the cause that took most of it.

A gap ends when an operation starts; what is asked is why that operation did not start earlier. What
each cause took of each gap is in `idle_parts`; the causes are explained there.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.model.columns import RANK, duration, join, number, text, time
from sightline.core.model.declare import Analysis, Param
from sightline.core.model.run import Run
from sightline.timeline.idle import MICRO_NS, list_idle_parts

ANALYSIS = Analysis(
    "idle_gaps",
    "When was nothing running on a device, and why?",
    (
        RANK,
        number("device_id", "device", required=True),
        time("start_ns", "end of the last operation before the gap"),
        time("end_ns", "start of the next operation, or the window's end"),
        duration("duration_ns", "length of the gap"),
        text("cause", "the cause of most of it: see `idle_parts`", required=True),
        join("before_id", "device_ops.device_op_id", "operation that ended last before the gap"),
        join("after_id", "device_ops.device_op_id", "operation that ends the gap"),
        text("after", "its name"),
        join("launch_id", "host_ops.host_op_id", "the call that launched it"),
        text("launch", "name of the call"),
        duration("launch_late_ns", "how long after the gap's start the call began; null in time"),
        join(
            "host_op_id",
            "host_ops.host_op_id",
            "what the launching thread was in, at the middle of the cause's part",
        ),
        text("host_op", "its name"),
    ),
    needs=("device_ops",),
    params=(
        Param("threshold_ns", 0, "leave out gaps that are not longer than this", "ns"),
        Param("micro_ns", MICRO_NS, "gaps of queued work shorter than this are micro_gap", "ns"),
    ),
    notes=("Gaps are of the device as a whole: a stream without work is not a gap.",),
    worst="duration_ns",
)

_BY = ["rank", "device_id"]


def run(run: Run, *, threshold_ns: int, micro_ns: int) -> pl.DataFrame:
    """One row per gap, in order of device and time."""
    parts = list_idle_parts(run, micro_ns)
    host = run.table("host_ops", ["host_op_id", "name"])
    # Of parts that took equally long the one that comes first in the gap counts.
    by_length = parts.sort("gap", "part_ns", descending=[False, True], maintain_order=True)
    most = by_length.filter(pl.col("gap").ne_missing(pl.col("gap").shift()))
    inner = find_rows(host.get_column("host_op_id"), most.get_column("host_op_id"))
    return (
        most.with_columns(
            duration_ns=pl.col("end_ns") - pl.col("start_ns"),
            launch_late_ns=pl.when("is_late").then(pl.col("call_ns") - pl.col("start_ns")),
            host_op=host.get_column("name").gather(inner),
        )
        .filter(pl.col("duration_ns") > threshold_ns)
        .select(c.name for c in ANALYSIS.columns)
    )
