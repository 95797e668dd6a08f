"""Each moment of a device's window given to one operation, so that operations add up to its parts.

Of operations that run at once, compute comes before communication and communication before copies
(the classes' order, as in the breakdown); of one class the one that started first has the moment.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.cover import measure_cover_before
from sightline.core.algebra.intervals import clip_intervals
from sightline.core.algebra.lookup import find_rows, take_rows
from sightline.core.model.run import Run
from sightline.timeline.callers import find_operators, find_places
from sightline.timeline.classes import CLASSES, classify_run

_BY = ["rank", "device_id"]
_USED = ("device_op_id", *_BY, "class_", "kind", "name", "launch_id", "start_ns", "end_ns")


def list_operations(run: Run) -> pl.DataFrame:
    """The same with `operator`, `outer_operator` and `place`: where each one was launched."""
    return run.once(_list_operations)


def _list_operations(run: Run) -> pl.DataFrame:
    ops = measure_own_time(run)
    host = run.table("host_ops")
    calls = ops.get_column("launch_id").unique().drop_nulls()
    where = find_operators(host, calls).with_columns(place=find_places(run, calls))
    at = find_rows(calls, ops.get_column("launch_id"))
    return ops.hstack(take_rows(where, at))


def measure_own_time(run: Run) -> pl.DataFrame:
    """One row per operation in its device's window: its span cut to the window, and `own_ns`.

    The sums of `own_ns` by class are the parts of `breakdown`, to the nanosecond.
    """
    return run.once(_measure_own_time)


def _measure_own_time(run: Run) -> pl.DataFrame:
    ops = classify_run(run).select(_USED)
    inside = clip_intervals(ops, run.ask("windows"), _BY, keep_empty=True)
    parts = [_of_device(mine) for mine in inside.partition_by(_BY, maintain_order=True)]
    return pl.concat(parts) if parts else inside.with_columns(own_ns=pl.lit(0, pl.Int64))


def _of_device(ops: pl.DataFrame) -> pl.DataFrame:
    ops = ops.sort("start_ns", maintain_order=True)
    parts = []
    for place, class_ in enumerate(CLASSES):
        mine = ops.filter(pl.col("class_") == class_)
        if mine.is_empty():
            continue
        reach = pl.col("end_ns").cum_max().shift(1).fill_null(pl.col("start_ns"))
        own = mine.select(
            since=pl.max_horizontal("start_ns", pl.min_horizontal(reach, "end_ns")), until="end_ns"
        )
        before = ops.filter(pl.col("class_").is_in(CLASSES[:place]))
        since, until = own.get_column("since"), own.get_column("until")
        taken = measure_cover_before(before, until) - measure_cover_before(before, since)
        parts.append(mine.with_columns(own_ns=until - since - taken))
    return pl.concat(parts)
