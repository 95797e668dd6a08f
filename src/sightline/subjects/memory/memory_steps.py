"""Steps of a program, as its memory shows them, and what is held from one to the next."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.subjects.memory.allocations import EVENT, NUMBER, follow_allocations
from sightline.subjects.memory.memory_stacks import FORWARD, OPTIMIZER
from sightline.subjects.memory.tensor_kinds import classify_blocks

# PyTorch's optimizers annotate their steps (torch/optim/optimizer.py, profile_hook_step), and
# profilers theirs.
_STEP = r"^(?:Optimizer\.step#|ProfilerStep#)"


def find_steps(run: Run) -> pl.DataFrame:
    """Where each step ends: memory, step (from 0) and the number of its last event.

    From the program's annotations; else where the optimizer begins to allocate after other code
    did; else where a forward pass begins again. None where the recording shows no such thing.
    """
    return run.once(_find_steps)


def _find_steps(run: Run) -> pl.DataFrame:
    marked = _find_marked(run)
    if marked.height:
        return marked
    blocks = (
        classify_blocks(run)
        .select("memory", "allocated", "phase")
        .filter(
            pl.col("allocated").is_not_null(),
            pl.col("memory").is_in(_list_devices(run).get_column("memory").implode()),
        )
        .sort("memory", "allocated")
    )
    for phase in (OPTIMIZER, FORWARD):
        here = pl.col("phase") == phase
        begins = blocks.filter(here & ~here.shift(1).over("memory").fill_null(value=False)).select(
            "memory", event="allocated"
        )
        if begins.height > 1:
            return _number(begins)
    return _number(blocks.head(0).select("memory", event="allocated"))


def _find_marked(run: Run) -> pl.DataFrame:
    """The ends of steps by annotations, whose times say which event comes last."""
    marks = (
        run.scan("memory_events")
        .filter(pl.col("action") == "range_end", pl.col("name").str.contains(_STEP))
        .select("rank", "device_id", "time_ns")
        .collect()
        .sort("time_ns")
    )
    found = follow_allocations(run)
    ends = [pl.DataFrame(schema={"memory": NUMBER, "event": EVENT})]
    for memory in _list_devices(run).iter_rows(named=True) if marks.height else ():
        own = pl.col("rank") == memory["rank"], pl.col("device_id").eq_missing(memory["device_id"])
        here = marks.filter(own).get_column("time_ns")
        events = found.events
        if found.memories.height > 1:
            events = events.filter(pl.col("memory") == memory["memory"])
        if not events.get_column("time_ns").is_sorted():
            events = events.sort("time_ns", "event")
        place = events.get_column("time_ns").search_sorted(here, side="right").cast(pl.Int64) - 1
        event = events.get_column("event").gather(place.filter(place >= 0))
        ends.append(
            event.to_frame().select(pl.lit(memory["memory"], NUMBER).alias("memory"), "event")
        )
    return _number(pl.concat(ends))


def _list_devices(run: Run) -> pl.DataFrame:
    """The memories of devices: memory, rank, device_id."""
    memories = follow_allocations(run).memories.filter(pl.col("memory_kind") == "device")
    return memories.select("memory", "rank", "device_id")


def _number(ends: pl.DataFrame) -> pl.DataFrame:
    ends = ends.unique().sort("memory", "event")
    step = pl.int_range(pl.len(), dtype=pl.Int64).over("memory")
    return ends.select("memory", step.alias("step"), "event")


def add_step(frame: pl.DataFrame, steps: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    """The frame with the step, counted from 0, in which the event of a column lies.

    What comes after the last end is one step more; what has no event, or is of a memory without
    steps, has no step.
    """
    events = frame.get_column(column)
    found = pl.repeat(None, frame.height, dtype=pl.Int64, eager=True)
    for memory, ends in steps.sort("memory", "event").group_by("memory", maintain_order=True):
        step = ends.get_column("event").search_sorted(events.fill_null(0)).cast(pl.Int64)
        found = step.zip_with(frame.get_column("memory") == memory[0], found)
    known = pl.when(events.is_not_null()).then(found)
    return frame.with_columns(known.alias(name))
