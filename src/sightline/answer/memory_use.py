"""What fills a device's memory, as data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.diagnosis.diagnose import diagnose_run
from sightline.diagnosis.price import share_of
from sightline.errors import MissingDataError
from sightline.subjects.memory.allocations import MEMORY, follow_allocations, select_memory
from sightline.subjects.memory.conservation import note_broken_memory

BAR, SPARK = 20, 60


def describe_memory(run: Run) -> dict[str, Any]:
    """Peaks, what they are made of, what is free and what would lower them.

    Sizes are bytes. Raises MissingDataError where no memory was recorded.
    """
    has_events, has_segments = run.rows("memory_events"), run.rows("memory_segments")
    if not has_events and not has_segments and not run.rows("program_buffers"):
        raise MissingDataError(
            "there is no memory to show",
            why="the recording has neither events nor segments of an allocator,\n"
            "nor programs that XLA compiled",
            hint="torch.cuda.memory._record_memory_history() and _dump_snapshot(PATH),\n"
            "or:  sightline run --for memory -- COMMAND",
        )
    found = [f for f in diagnose_run(run) if share_of(f.rule) == "the memory" and not f.abstained]
    return {
        "peaks": run.ask("memory_peak").to_dicts() if has_events else [],
        "peak_blocks": run.ask("peak_blocks").to_dicts() if has_events else [],
        "what_if": run.ask("memory_what_if").to_dicts() if has_events else [],
        "smaller_batch": run.ask("smaller_batch").to_dicts() if has_events else [],
        "outside": _ask_outside(run) if has_events else [],
        "failures": run.ask("out_of_memory").to_dicts() if has_events else [],
        "fragmentation": run.ask("fragmentation").to_dicts() if has_segments else [],
        "over_time": _sample_curves(run) if has_events else [],
        "programs": describe_programs(run),
        "findings": [f.to_dict() for f in found],
        "limits": [asdict(note)] if (note := note_broken_memory(run)) else [],
    }


def _ask_outside(run: Run) -> list[dict[str, Any]]:
    try:
        return run.ask("memory_outside").to_dicts()
    except MissingDataError:
        return []


def _sample_curves(run: Run) -> list[dict[str, Any]]:
    """The most that was allocated in each of equally long parts of the recording."""
    found = follow_allocations(run)
    curves = []
    for memory in found.memories.iter_rows(named=True):
        events = select_memory(found, found.events, memory).drop_nulls("allocated_bytes")
        if events.is_empty():
            continue
        time = pl.col("time_ns")
        first, last = events.select(time.min().alias("first"), time.max().alias("last")).row(0)
        curve = (
            events.lazy()
            .group_by(part=(time - first) * SPARK // (last - first + 1))
            .agg(pl.col("allocated_bytes").max())
            .sort("part")
            .collect(engine="streaming")
        )
        curves += [{name: memory[name] for name in MEMORY} | row for row in curve.to_dicts()]
    return curves


def describe_programs(run: Run) -> dict[str, Any]:
    """The programs, the largest first, and what is live at the first one's peak. Sizes: bytes."""
    if not run.rows("program_buffers"):
        return {"programs": [], "buffers": []}
    programs = run.ask("program_memory")
    key = ["rank", "program", "memory_space"]
    buffers = run.ask("program_peak_buffers").join(
        programs.head(1).select(key), on=key, how="semi", nulls_equal=True
    )
    return {"programs": programs.to_dicts(), "buffers": buffers.to_dicts()}
