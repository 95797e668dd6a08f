"""Which of the sums that a profiler printed are judged: those of one run of each recording."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run

_BY = ["rank", "recording_id"]


def select_sums(run: Run) -> pl.DataFrame:
    """Rows of `call_sums` of the run that is judged where one text holds several.

    It is the last one in which a device worked, else the last one: what stands above it was changed
    since. All rows of a recording that holds one run.
    """
    return run.once(_select_sums)


def _select_sums(run: Run) -> pl.DataFrame:
    sums = run.table("call_sums")
    works = (pl.col("kind") == "device") & (pl.col("category").cast(pl.String) != "page faults")
    last = pl.coalesce(
        pl.col("part").filter(works.fill_null(value=True) & (pl.col("kind") == "device")).max(),
        pl.col("part").max(),
    )
    chosen = sums.group_by(_BY).agg(chosen=last)
    return (
        sums.join(chosen, on=_BY, how="left", maintain_order="left")
        .filter(pl.col("part").is_null() | (pl.col("part") == pl.col("chosen")))
        .drop("chosen")
    )
