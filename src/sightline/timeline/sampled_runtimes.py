"""Which runtime of runtimes.tsv each CPU sample fell in: the outermost frame that says so.

What a compiler calls (another compiler, the garbage collector) is its own work.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.algebra.trees import climb_to_last
from sightline.core.model.run import Run
from sightline.timeline.runtimes import FRAME, LIBRARY, find_runtimes

_TRACE = ["rank", "recording_id"]
_THREAD = ["rank", "pid", "tid"]


def list_sampled_runtimes(run: Run) -> pl.DataFrame:
    """Samples of running threads with a stack: rank, pid, tid, time_ns, `runtime` (row or null)."""
    return run.once(_list_sampled_runtimes)


def _list_sampled_runtimes(run: Run) -> pl.DataFrame:
    types = {**dict.fromkeys((*_THREAD, "time_ns"), pl.Int64), "runtime": pl.Int32}
    if not run.rows("cpu_samples") or not run.rows("stacks"):
        return pl.DataFrame(schema=types)
    samples = run.table("cpu_samples").filter(
        pl.col("on_cpu").fill_null(value=True) & pl.col("stack_id").is_not_null()
    )
    keyed = samples.select(*_TRACE, *_THREAD[1:], "time_ns", "stack_id")
    stacks = _name_stacks(run)
    return (
        keyed.join(stacks, on=[*_TRACE, "stack_id"], how="left", maintain_order="left")
        .select(*_THREAD, "time_ns", "runtime")
        .sort("time_ns", maintain_order=True)
    )


def _name_stacks(run: Run) -> pl.DataFrame:
    """Each stack with the row of the runtime that its outermost known frame is of."""
    stacks = run.table("stacks").select(*_TRACE, "stack_id", "parent_id", "frame_id")
    frames = run.table("frames").select(*_TRACE, "frame_id", "function", "module")
    library = frames.get_column("module").cast(pl.String).str.split("/").list.last()
    known = frames.select(
        *_TRACE,
        "frame_id",
        own=pl.coalesce(
            find_runtimes(frames.get_column("function"), FRAME), find_runtimes(library, LIBRARY)
        ),
    )
    parts = []
    for mine in stacks.join(known, on=[*_TRACE, "frame_id"], how="left").partition_by(_TRACE):
        up = find_rows(mine.get_column("stack_id"), mine.get_column("parent_id")).cast(pl.UInt32)
        own = mine.get_column("own")
        rows = pl.int_range(mine.height, dtype=pl.UInt32, eager=True)
        wanted = own.is_not_null().arg_true().cast(pl.UInt32)
        parts.append(mine.with_columns(runtime=own.gather(climb_to_last(up, wanted, rows))))
    return pl.concat(parts).select(*_TRACE, "stack_id", "runtime")
