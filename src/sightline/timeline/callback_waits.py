"""Waits for a host function that the device runs behind the work: no call of the API shows them.

XLA's runtime, for one, puts a host function on the stream (cuLaunchHostFunc) behind a program, and
who wants the result (JAX's block_until_ready) sleeps until that function wakes it. Where calls of
the C library or of the system were recorded, the thread sleeps in one of those that wait for
another thread, from before the work's end until behind it.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import find_rows, take_rows
from sightline.core.model.run import Run
from sightline.timeline.api_calls import calls_back
from sightline.timeline.host_ranges import list_host_names
from sightline.timeline.system_calls import LOCKS, list_system_calls

_THREAD = ["rank", "pid", "tid"]
CALLBACK_WAITS = {
    "host_op_id": pl.Int64,
    **dict.fromkeys(_THREAD, pl.Int64),
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "target_id": pl.Int64,
    "target_end": pl.Int64,
}
# Fewer tell no wait from chance (ours, as in replay/polling.py).
_LEAST_TIMES = 3


def list_callback_waits(run: Run) -> pl.DataFrame:
    """The calls in which a thread sleeps until its work is done, which a host function tells it.

    Columns: the call's `host_op_id`, thread and times, ns; the operation that the thread launched
    last before the host function (`target_id`) and that one's end, within the call.
    """
    return run.once(_list_callback_waits)


def _list_callback_waits(run: Run) -> pl.DataFrame:
    nothing = pl.DataFrame(schema=CALLBACK_WAITS)
    is_function = calls_back(list_host_names(run))
    if not is_function.any():
        return nothing
    host = run.columns("host_ops", ["host_op_id", *_THREAD, "start_ns"])
    functions = host.filter(is_function).select(*_THREAD, told="start_ns")
    sleeps = list_system_calls(run).filter(pl.col("name").str.contains(LOCKS))
    sleeps = sleeps.select("host_op_id", *_THREAD, "start_ns", "end_ns")
    at = find_latest(sleeps, "start_ns", functions, "told", _THREAD)
    sleeps = sleeps.hstack(take_rows(functions.select("told"), at)).drop_nulls("told")
    ops = run.columns("device_ops", ["device_op_id", "launch_id", "end_ns"]).drop_nulls("launch_id")
    # Of what one call launched the last to end: of equal ids the last row is found.
    ops = ops.sort("end_ns", "device_op_id")
    ids = ops.get_column("launch_id")
    rows = find_rows(host.get_column("host_op_id"), ids.unique().sort()).drop_nulls()
    launches = take_rows(host, rows)
    before = find_latest(sleeps, "told", launches, "start_ns", _THREAD)
    last = find_latest(sleeps, "start_ns", launches, "start_ns", _THREAD)
    call = take_rows(launches.select("host_op_id"), before).to_series()
    work = ops.select(target_id="device_op_id", target_end="end_ns")
    waits = sleeps.hstack(take_rows(work, find_rows(ids, call))).filter(
        before == last,  # nothing was launched behind the host function
        pl.col("target_end").is_between("start_ns", "end_ns"),
    )
    return waits.select(list(CALLBACK_WAITS)) if waits.height >= _LEAST_TIMES else nothing
