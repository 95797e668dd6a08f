"""What fills a compiled program's memory at its peak: its buffers, and the lines that made them."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, number, pct, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "program_peak_buffers",
    "What fills a compiled program's memory at its peak?",
    (
        RANK,
        text("program", "the compiled program", required=True),
        text("buffer_kind", "parameter, output, constant or temporary", required=True),
        size("bytes", "the buffer's size"),
        pct("bytes_pct", "of all the program's allocations there"),
        text("shape", "element type and dimensions"),
        text("operation", "the operation of the program's source"),
        text("file", "source file of the operation"),
        number("line", "line in it"),
        text("instruction", "the instruction that makes it"),
        number("memory_space", "memory space by XLA's number; 0 is the device's memory"),
    ),
    needs=("program_buffers",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per live buffer: the largest program first, and its largest buffer first."""
    program = ["rank", "program", "memory_space"]
    totals = run.ask("program_memory").select(*program, "total_bytes")
    return (
        run.table("program_buffers")
        .filter("at_peak", pl.col("buffer_kind") != "thread_local", pl.col("bytes") > 0)
        .join(totals, on=program, how="left", nulls_equal=True)
        .with_columns(bytes_pct=100 * pl.col("bytes") / pl.col("total_bytes"))
        .sort(
            "total_bytes", *program, "bytes", "allocation", "buffer",
            descending=[True, False, False, False, True, False, False],
        )
        .select(c.name for c in ANALYSIS.columns)
    )  # fmt: skip
