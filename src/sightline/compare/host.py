"""What the host does in a step, before and after: operators by their own time, ranges by all of it.

Host time runs beside the device's, so these changes explain idle time and do not sum to the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from sightline.compare.sample import Sample
from sightline.core.model.run import Run

# What is compared: the analysis, what its rows are called by, and the time that counts.
_TABLES = (("operator", "ops", "name", "host_self_ns"), ("range", "annotations", "path", "host_ns"))
_SIDES = ("before", "after")
# A marked step, as the analysis `annotations` writes it without its number.
_STEP, _IN_STEP = r"^[^/]*#\*$", r"^[^/]*#\* / "


def compare_host(before: Sequence[Sample], after: Sequence[Sample]) -> list[dict[str, Any]]:
    """One row per operator and annotated range, the largest change first: calls and ns of a step.

    Means over steps, ranks and runs. `kind` is operator or range; ranges hold each other.
    """
    found = [
        row
        for kind, analysis, name, value in _TABLES
        for row in _compare(kind, analysis, name, value, (before, after))
    ]
    return sorted(found, key=lambda row: (-abs(row["delta_ns"]), row["kind"], row["name"]))


def _compare(
    kind: str,
    analysis: str,
    name: str,
    value: str,
    sides: tuple[Sequence[Sample], Sequence[Sample]],
) -> list[dict[str, Any]]:
    if not all(s.run is not None and s.run.rows("host_ops") for side in sides for s in side):
        return []
    means = [
        pl.concat([_average(sample, analysis, name, value, len(side)) for sample in side])
        .group_by("name")
        .agg(pl.exclude("name").sum())
        .rename({"calls": f"{which}_calls", "ns": f"{which}_ns"})
        for which, side in zip(_SIDES, sides, strict=True)
    ]
    return (
        means[0]
        .join(means[1], on="name", how="full", coalesce=True)
        .with_columns(pl.exclude("name").fill_null(0.0))
        .select(
            kind=pl.lit(kind),
            name="name",
            before_calls="before_calls",
            after_calls="after_calls",
            before_ns=pl.col("before_ns").round().cast(pl.Int64),
            after_ns=pl.col("after_ns").round().cast(pl.Int64),
        )
        .with_columns(delta_ns=pl.col("after_ns") - pl.col("before_ns"))
        .filter((pl.col("before_ns") != 0) | (pl.col("after_ns") != 0))
        .to_dicts()
    )


def _average(sample: Sample, analysis: str, name: str, value: str, runs: int) -> pl.DataFrame:
    """Calls and ns of a step and rank, divided by the number of runs that are averaged.

    Of a range the marked step around it is not part of its name, and the step itself is not a row.
    """
    text = pl.col(name)
    assert sample.run is not None, "a fingerprint holds no host time"
    rows = (
        sample.run.ask(analysis)
        .filter(~text.str.contains(_STEP))
        .select(
            name=text.str.replace(_IN_STEP, ""),
            calls=pl.col("instances") / (_count_steps(sample, sample.run) * runs),
            ns=pl.col(value) / (_count_steps(sample, sample.run) * runs),
        )
    )
    return rows.group_by("name").agg(pl.exclude("name").sum())


def _count_steps(sample: Sample, run: Run) -> int:
    """Steps × ranks. Without a device's timeline, these analyses are about the whole recording."""
    if not sample.has_device and sample.source is not None:
        return max(run.ask("iterations").height, 1)
    ranks = run.table("recordings").get_column("rank").n_unique()
    return max(sample.length.count * ranks, 1)
