"""The call stacks of allocations, recorded or made from what was open on the thread.

A snapshot has the stack of each allocation. A profiler that notes allocations beside operators, as
PyTorch's does with `profile_memory=True`, only says on which thread and when: the ranges that were
open there (Python functions, modules, operators, calls) are its stack.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from sightline.core.algebra.lookup import find_rows, keep_rows
from sightline.core.algebra.trees import find_open_range
from sightline.core.model.run import Run
from sightline.timeline.host_ranges import list_range_parents
from sightline.timeline.system_calls import keep_ranges_of_processes

# How PyTorch names Python functions: file(line): function.
_PYTHON = r"^(.+)\((\d+)\): (.+)$"


class MemoryCalls(NamedTuple):
    """The tables frames and stacks that `memory_events` refer to.

    `stack_ids`: of each memory event in its order, where the stacks were made here; else None.
    """

    frames: pl.DataFrame
    stacks: pl.DataFrame
    stack_ids: pl.Series | None


def find_memory_calls(run: Run) -> MemoryCalls:
    """The stacks of all memory events of a run."""
    return run.once(_find)


def _find(run: Run) -> MemoryCalls:
    recorded = MemoryCalls(run.table("frames"), run.table("stacks"), None)
    known = (
        run.scan("memory_events")
        .select(pl.col("stack_id").is_not_null().any(), pl.col("tid").is_not_null().any())
        .collect(engine="streaming")
    )
    if known.item(0, "stack_id") or not known.item(0, "tid") or not run.rows("host_ops"):
        return recorded
    events = run.columns("memory_events", ["rank", "pid", "tid", "time_ns"])
    names = ["host_op_id", "rank", "pid", "tid", "layer", "name", "start_ns", "end_ns", "parent_id"]
    host = run.columns("host_ops", [*names, "depth", "recording_id"])
    host = keep_ranges_of_processes(run, host).drop("recording_id")
    up = list_range_parents(run)  # these are the same ranges
    calls = find_open_range(host, events, "time_ns", up)
    if not calls.count():
        return recorded
    return _make(host.drop("rank", "pid", "tid", "start_ns", "end_ns"), calls, up)


def _make(host: pl.DataFrame, calls: pl.Series, up: pl.Series) -> MemoryCalls:
    """A stack for each different chain of names, from the outermost range to each of the calls."""
    host = keep_rows(host, _mark_chains(host, calls, up))
    frames = host.select("layer", "name").unique(maintain_order=True)
    frames = frames.with_columns(frame_id=pl.int_range(pl.len(), dtype=pl.Int64))
    ids = host.get_column("host_op_id")
    rows = host.join(frames, on=["layer", "name"], maintain_order="left").select(
        "depth", "frame_id", up=find_rows(ids, host.get_column("parent_id"))
    )
    stack = pl.repeat(None, host.height, dtype=pl.Int64, eager=True)
    stacks, used = [], 0
    # A range's parent is of a lower depth: its stack is known by then.
    for level in (
        rows.with_row_index("row").sort("depth", maintain_order=True).partition_by("depth")
    ):
        level = level.with_columns(parent_id=stack.gather(level.get_column("up")))
        key = ["parent_id", "frame_id"]
        new = level.select(*key, "depth").unique(key, maintain_order=True)
        new = new.with_columns(stack_id=pl.int_range(used, used + pl.len(), dtype=pl.Int64))
        used += new.height
        stacks.append(new.select("stack_id", *key, "depth"))
        found = level.join(new, on=key, how="left", nulls_equal=True, maintain_order="left")
        stack = stack.scatter(level.get_column("row"), found.get_column("stack_id"))
    return MemoryCalls(
        _describe_frames(frames),
        pl.concat(stacks),
        stack.gather(find_rows(ids, calls)).alias("stack_id"),
    )


def _mark_chains(host: pl.DataFrame, calls: pl.Series, up: pl.Series) -> pl.Series:
    """Which ranges are among the calls, or around one."""
    ids = host.get_column("host_op_id")
    marked = pl.repeat(value=False, n=host.height, eager=True)
    level = find_rows(ids, calls).drop_nulls().unique()
    while level.len():
        marked = marked.scatter(level, values=True)
        level = up.gather(level).drop_nulls().unique()
        level = level.filter(~marked.gather(level))
    return marked


def _describe_frames(frames: pl.DataFrame) -> pl.DataFrame:
    """As the table frames has them, with the layers of host_ops."""
    parts = pl.col("name").str.extract_groups(_PYTHON).struct
    is_python = pl.col("layer") == "python"
    return frames.select(
        "frame_id",
        "layer",
        function=pl.when(is_python).then(pl.coalesce(parts.field("3"), "name")).otherwise("name"),
        file=pl.when(is_python).then(parts.field("1")),
        line=pl.when(is_python).then(parts.field("2").cast(pl.Int64, strict=False)),
        module=pl.lit(None, pl.String),
    )
