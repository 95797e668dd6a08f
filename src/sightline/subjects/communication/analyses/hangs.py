"""Collectives in which some ranks wait for others that never came, by PyTorch's flight recorder.

A rank is missing where it has no record of the collective, nor of a later one of the group: records
of what has ended may be gone. Missing ranks that wait for another missing one themselves are
victims; `blamed` are those who wait for nobody, or for each other only. Ranks whose dumps are not
there are missing in all that they belong to.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, numbers, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.communication.hang_records import list_stuck

ANALYSIS = Analysis(
    "hangs",
    "Which collectives does the job hang in, and who is missing?",
    (
        text("group", "process group"),
        text("group_description", "what the group is for, as the program named it"),
        text("op", "operation", required=True),
        number("sequence", "its order in the group"),
        numbers("waiting", "ranks that are in it"),
        numbers("missing", "ranks that are not"),
        numbers("blamed", "of those, the ones that no other rank holds up"),
        time("since_ns", "when the first rank asked for it, on its host's wall clock"),
        text("place", "where that rank's program did so"),
        text("sizes", "dimensions of its inputs"),
    ),
    needs=("flight_records",),
    notes=("A recorder keeps the last records only (TORCH_FR_BUFFER_SIZE).",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per collective, the earliest first."""
    return list_stuck(run).rename({"input_sizes": "sizes"}).select(c.name for c in ANALYSIS.columns)
