"""Waits that one thread makes for another: which launching thread stood still meanwhile.

A runtime with tasks of its own keeps its scheduler free and lets another thread of the process
block: CUDA.jl hands a synchronization that takes long to a thread that does nothing else
(lib/cudadrv/synchronization.jl, nonblocking_synchronize). The thread that launches makes no call
until it is told, and the recording holds no word of the two.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import take_rows
from sightline.core.model.run import Run
from sightline.timeline.api_calls import synchronizes
from sightline.timeline.host_ranges import IN_API, list_host_names
from sightline.timeline.launching import list_launching_threads

_PROCESS = ["rank", "pid"]
_THREAD = [*_PROCESS, "tid"]
_COLUMNS = ["host_op_id", *_THREAD, "layer", "start_ns", "end_ns"]
# A thread waits for others if in so much of its waits' time they call nothing (ours: a thread that
# waits for itself, as a reader of results does, leaves the others to launch on).
_SILENT_SHARE = 0.9
# Two calls may be silent by chance (ours: three polls are a wait, replay/polling.py).
_LEAST_WAITS = 3


def list_lent_waits(run: Run) -> pl.DataFrame:
    """Synchronizations made for a thread that launches: `host_op_id`, and that thread's `tid`.

    Of threads that launch nothing, and only waits in which no launching thread of the process
    calls anything.
    """
    return run.once(_list_lent_waits)


def lend_waits(run: Run, calls: pl.DataFrame) -> pl.DataFrame:
    """The calls, with those of another's waits on the thread that they were made for."""
    lent = list_lent_waits(run)
    if lent.is_empty():
        return calls
    owner = calls.select("host_op_id").join(
        lent, on="host_op_id", how="left", maintain_order="left"
    )
    return calls.with_columns(tid=pl.coalesce(owner.get_column("tid"), "tid"))


def _list_lent_waits(run: Run) -> pl.DataFrame:
    nothing = pl.DataFrame(schema={"host_op_id": pl.Int64, "tid": pl.Int64})
    launching = list_launching_threads(run).select(_THREAD)
    host = run.columns("host_ops", _COLUMNS)
    waiting = synchronizes(list_host_names(run)) & host.select(IN_API).to_series()
    waits = host.filter(waiting).join(launching, on=_THREAD, how="anti", maintain_order="left")
    if waits.height < _LEAST_WAITS or launching.is_empty():
        return nothing
    calls = host.filter(IN_API).join(launching, on=_THREAD, how="semi", maintain_order="left")
    before = find_latest(waits, "end_ns", calls, "start_ns", _PROCESS, ties=["host_op_id"])
    names = {"tid": "owner", "end_ns": "called_until"}
    length = pl.col("end_ns") - pl.col("start_ns")
    told = waits.hstack(take_rows(calls.select(*names).rename(names), before)).with_columns(
        # What began before the wait had returned by then.
        silent=(pl.col("called_until") <= pl.col("start_ns")).fill_null(value=False),
        length=length,
    )
    share = pl.col("length").filter("silent").sum() / pl.col("length").sum()
    many = pl.col("silent").sum() >= _LEAST_WAITS
    mine = told.filter((share.over(_THREAD) >= _SILENT_SHARE) & many.over(_THREAD), "silent")
    return mine.select("host_op_id", tid="owner")
