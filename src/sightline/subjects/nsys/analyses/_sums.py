"""Reports of `nsys stats` that sum host ranges by name, each declared in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from sightline.core.model.columns import Column
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import (
    SHARE_NOTE,
    declare_time_sum,
    require_rows,
    sum_durations,
)


def sum_ranges(
    name: str,
    question: str,
    ranges: Callable[[Run], pl.DataFrame],
    *,
    by: Sequence[Column],
    count: str,
    what: str,
    hint: str,
    notes: tuple[str, ...] = (),
) -> tuple[Analysis, Callable[[Run], pl.DataFrame]]:
    """The report's declaration and its function.

    `ranges` gives the rows with `ns` and the columns `by`; `count` is what nsys calls their number.
    Where there are none, the error says that the recording has no `what`, and `hint` records them.
    """
    keys = [column.name for column in by]

    def run(run: Run) -> pl.DataFrame:
        """One row per name, largest total first."""
        return sum_durations(
            require_rows(ranges(run), name, what, hint).select("ns", *keys), count, keys
        )

    columns = declare_time_sum(count, *by)
    notes = (SHARE_NOTE, *notes)
    return Analysis(name, question, columns, needs=("host_ops",), notes=notes), run
