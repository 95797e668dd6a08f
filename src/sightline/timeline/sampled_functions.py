"""Which functions CPU samples of running threads fell in."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run

_TRACE = ["rank", "recording_id"]
_THREAD = ["rank", "pid", "tid"]
# An address tells nobody anything: the library that it lies in does.
_ADDRESS = r"^(?:0x[0-9a-fA-F]+|\[.*\])$"


def sort_samples(run: Run) -> pl.DataFrame:
    """The samples of running threads with a stack, in order of time."""
    return (
        run.table("cpu_samples")
        .filter(pl.col("on_cpu").fill_null(value=True) & pl.col("stack_id").is_not_null())
        .select(*_THREAD, "time_ns", "recording_id", "stack_id")
        .sort("time_ns")
    )


def count_functions(run: Run, samples: pl.DataFrame) -> list[tuple[str, int]]:
    """Where samples (rows of `sort_samples`) end, and how many of them, the most first."""
    stacks = run.table("stacks").select(*_TRACE, "stack_id", "frame_id")
    frames = run.table("frames").select(*_TRACE, "frame_id", "function", "module")
    named = samples.join(stacks, on=[*_TRACE, "stack_id"]).join(frames, on=[*_TRACE, "frame_id"])
    is_address = pl.col("function").str.contains(_ADDRESS).fill_null(True)
    library = pl.col("module").str.split("/").list.last()
    where = pl.when(is_address & library.is_not_null()).then(library).otherwise("function")
    counted = named.group_by(where=where).agg(n=pl.len()).drop_nulls("where")
    return counted.sort("n", "where", descending=[True, False]).rows()
