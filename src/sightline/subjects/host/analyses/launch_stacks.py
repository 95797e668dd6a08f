"""Which code launched the GPU's work, by samples of the CPU's stacks."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.launch_stacks import match_calls

ANALYSIS = Analysis(
    "launch_stacks",
    "Which code launched the kernels that take the time, by samples of the CPU's stacks?",
    (
        RANK,
        text("name", "the kernel"),
        text("place", "the innermost Python function of the stack, else the innermost function "
                      "outside the vendor's libraries; null where no stack is near"),
        text("match", "exact: sampled during the launching call; near: the thread's closest one, "
                      "at most a period away; unmatched: there is none"),
        number("launches", "launches"),
        duration("device_ns", "their time on the device, added up"),
        duration("apart_ns", "between call and sample, the median"),
    ),
    needs=("device_ops", "host_ops", "cpu_samples"),
    notes=(
        "Few short calls are sampled themselves: the nearest sample of the thread stands for the "
        "launch, which is right on average but not for each launch.",
    ),
)  # fmt: skip


def run(run: Run) -> pl.DataFrame:
    """One row per rank, kernel, place and grade, the most device time first."""
    placed = match_calls(run, _list_launches(run))
    by = ["rank", "name", "place", "match"]
    return (
        placed.group_by(by)
        .agg(
            launches=pl.len().cast(pl.Int64),
            device_ns=pl.col("duration_ns").sum(),
            apart_ns=pl.col("apart_ns").median().round().cast(pl.Int64),
        )
        .sort(by)
        .sort("device_ns", descending=True, maintain_order=True)
        .select(column.name for column in ANALYSIS.columns)
    )


def _list_launches(run: Run) -> pl.DataFrame:
    """Kernels with the call that launched each."""
    calls = run.table("host_ops").select(
        "host_op_id", "pid", "tid", call_start="start_ns", call_end="end_ns"
    )
    kernels = run.table("device_ops").filter(pl.col("kind") == "kernel")
    return kernels.select(
        "rank", "name", "launch_id", duration_ns=pl.col("end_ns") - pl.col("start_ns")
    ).join(calls, left_on="launch_id", right_on="host_op_id", how="left")
