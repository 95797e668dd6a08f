"""What memory each compiled program takes, as its compiler (XLA) laid it out.

A program takes its allocations: parameters, what it gives back, constants, and one for everything
temporary, in which buffers share bytes. `peak_bytes` is what of them is live when the most of the
temporary one is, as the compiler's own heap simulation has it (openxla/xprof, memory viewer); the
rest of that allocation is lost to fragmentation and alignment. What is thread-local lies in
registers and stacks, and is left out.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, number, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

_KINDS = ("parameter", "output", "constant", "temporary")
ANALYSIS = Analysis(
    "program_memory",
    "What memory does each compiled program take?",
    (
        RANK,
        text("program", "the compiled program", required=True),
        number("memory_space", "memory space by XLA's number; 0 is the device's memory"),
        size("total_bytes", "all its allocations"),
        size("parameter_bytes", "its inputs, and outputs that reuse their memory"),
        size("output_bytes", "its outputs"),
        size("constant_bytes", "constants"),
        size("temporary_bytes", "temporary buffers"),
        size("peak_bytes", "live at the peak; null where the compiler simulated no heap"),
    ),
    needs=("program_buffers",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per program and memory space, the largest first."""
    program = ["rank", "program", "memory_space"]
    allocation = [*program, "allocation", "buffer_kind"]
    lasting = pl.col("buffer_kind") != "temporary"
    allocations = (
        run.table("program_buffers")
        .filter(pl.col("buffer_kind") != "thread_local")
        .group_by(allocation)
        .agg(
            pl.col("allocation_bytes").first().alias("size"),
            pl.col("bytes").filter("at_peak").sum().alias("live"),
            (pl.col("at_peak").is_null() & (pl.col("bytes") > 0)).any().alias("is_unknown"),
        )
        .with_columns(live=pl.when(lasting).then("size").otherwise("live"))
    )
    return (
        allocations.group_by(program)
        .agg(
            pl.col("size").sum().alias("total_bytes"),
            *(
                pl.col("size").filter(pl.col("buffer_kind") == kind).sum().alias(f"{kind}_bytes")
                for kind in _KINDS
            ),
            pl.when(~pl.col("is_unknown").any()).then(pl.col("live").sum()).alias("peak_bytes"),
        )
        .sort("total_bytes", *program, descending=[True, False, False, False])
        .select(c.name for c in ANALYSIS.columns)
    )
