"""Calls each of which is most of what was recorded of its thread."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run

_LAYERS = ["runtime", "driver", "mpi", "library"]
_WAITS = r"(?i)synchronize|wait|recv|barrier|finalize|poll|join"
_THREAD = ["rank", "pid", "tid"]


def list_first_calls(run: Run) -> pl.DataFrame:
    """The longest call of each thread in which it is for half of its time, and no other as long.

    Columns rank, pid, tid, name, ns, start_ns, span (ns) and n, the longest first. Empty where GPU
    work was recorded, which says more.
    """
    return run.once(_list_first_calls)


def _list_first_calls(run: Run) -> pl.DataFrame:
    if run.rows("device_ops") or not run.rows("host_ops"):
        return pl.DataFrame()
    host = run.table("host_ops", [*_THREAD, "layer", "name", "start_ns", "end_ns"])
    spans = host.group_by(_THREAD).agg(span=pl.col("end_ns").max() - pl.col("start_ns").min())
    calls = host.filter(pl.col("layer").is_in(_LAYERS)).select(
        *_THREAD, "name", "start_ns", ns=pl.col("end_ns") - pl.col("start_ns")
    )
    longest = (
        calls.sort("ns", "start_ns", descending=[True, False])
        .group_by(_THREAD, maintain_order=True)
        .agg(pl.col("name", "ns", "start_ns").first())
    )
    same = [*_THREAD, "name"]
    alike = (
        calls.join(longest, on=same, suffix="_longest", nulls_equal=True)
        .group_by(_THREAD)
        .agg(n=(2 * pl.col("ns") >= pl.col("ns_longest")).sum())
    )
    return (
        longest.join(spans, on=_THREAD, nulls_equal=True)
        .join(alike, on=_THREAD, nulls_equal=True)
        .filter(
            2 * pl.col("ns") >= pl.col("span"),
            pl.col("span") > 0,
            pl.col("n") == 1,
            ~pl.col("name").str.contains(_WAITS),
        )
        .sort("ns", *_THREAD, descending=[True, False, False, False])
    )
