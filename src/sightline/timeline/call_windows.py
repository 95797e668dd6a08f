"""The window of a program of which only the calls to the GPU were recorded, and no GPU work."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.timeline.host_ranges import IN_API

_PROCESS = ["rank", "pid"]
# Fewer calls are a look at what devices there are, and no program (ours).
LEAST_CALLS = 100


def list_call_windows(run: Run) -> pl.DataFrame:
    """The thread of each process that makes most calls: rank, pid, tid, start_ns, end_ns, calls.

    From its first call to the end of its last one. Empty where GPU work or operators were recorded:
    then they say more.
    """
    return run.once(_list_call_windows)


def _list_call_windows(run: Run) -> pl.DataFrame:
    names = ["rank", "pid", "tid", "start_ns", "end_ns", "calls"]
    nothing = pl.DataFrame(schema=dict.fromkeys(names, pl.Int64))
    if not run.rows("host_ops") or run.rows("device_ops") or run.rows("profiled_kernels"):
        return nothing
    host = run.table("host_ops", [*_PROCESS, "tid", "layer", "start_ns", "end_ns"])
    if host.select((pl.col("layer").is_in(["op", "step"])).any()).item():
        return nothing
    return (
        host.filter(IN_API)
        .group_by(*_PROCESS, "tid")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max(), calls=pl.len().cast(pl.Int64))
        .filter(pl.col("calls") >= LEAST_CALLS)
        .sort(*_PROCESS, "calls", "tid", descending=[False, False, True, False])
        .unique(_PROCESS, keep="first", maintain_order=True)
        .select(names)
    )


def find_longest_call_window(run: Run) -> int:
    """The longest of these windows, ns; 0 where there is none."""
    longest = list_call_windows(run).select(ns=pl.col("end_ns") - pl.col("start_ns"))
    return int(longest.get_column("ns").max() or 0)  # type: ignore[arg-type]
