"""Gaps between kernels that the profiler made: no program waits in them."""

from __future__ import annotations

from sightline.core.model.run import Run

# By the limit that a recording has (`quality`).
SERIALIZED, IN_WINDOWS = "serialized_kernels", "recorded_in_windows"


def find_profiler_gaps(run: Run) -> str | None:
    """Why no gap is the program's, SERIALIZED or IN_WINDOWS; None where they are."""
    return run.once(_find_profiler_gaps)


def _find_profiler_gaps(run: Run) -> str | None:
    kinds = set(run.table("quality").get_column("kind").unique())
    return next((kind for kind in (SERIALIZED, IN_WINDOWS) if kind in kinds), None)
