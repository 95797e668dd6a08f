"""What each step of an inference engine put on the device, and what launching it took."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.timeline.engine_steps import list_step_work

_STEP = ["rank", "step"]


def measure_step_work(run: Run) -> pl.DataFrame:
    """One row per rank and step with device operations.

    Columns rank, step, busy_ns (concurrent operations count once), kernel_ns (their sum),
    launches (calls that launch kernels one by one), graph_launches, graph_kernels (what these
    replayed) and graph_launch_ns (time in those calls).
    """
    return run.once(_measure)


def _measure(run: Run) -> pl.DataFrame:
    work = list_step_work(run)
    length = pl.col("end_ns") - pl.col("start_ns")
    before = pl.col("end_ns").cum_max().shift(1).over(*_STEP, "device_id")
    new = pl.col("end_ns") - pl.max_horizontal("start_ns", before)
    is_kernel = pl.col("kind").is_in(["kernel", "graph"])
    call = pl.col("launch_id")
    per_step = (
        work.sort(*_STEP, "device_id", "start_ns")
        .with_columns(new=new.clip(lower_bound=0))
        .group_by(_STEP, maintain_order=True)
        .agg(
            busy_ns=pl.col("new").sum(),
            kernel_ns=length.filter(is_kernel).sum(),
            launches=call.filter(is_kernel & ~pl.col("is_graph")).n_unique(),
            graph_launches=call.filter("is_graph").n_unique(),
            graph_kernels=pl.col("is_graph").sum(),
        )
    )
    calls = work.filter("is_graph").unique("launch_id")
    spent = calls.group_by(_STEP).agg(
        graph_launch_ns=(pl.col("launch_end_ns") - pl.col("launch_ns")).sum()
    )
    return per_step.join(spent, on=_STEP, how="left", maintain_order="left").with_columns(
        pl.col("graph_launch_ns").fill_null(0),
        pl.col("launches", "graph_launches", "graph_kernels").cast(pl.Int64),
    )
