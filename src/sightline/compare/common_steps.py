"""Steps that each side alone is unsure of, and that the other side bears out.

A loop of one or two kernels that nothing marks is found from the order of kernels, with little
confidence: any few launches in a row would do. Where both sides come to the same launches a step,
of the same shapes, that is one unit of work on both, and more to go by than two recordings of
unequal length.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline.compare.sample import Sample, take_sample
from sightline.core.model.run import Run
from sightline.timeline.step_clock import list_steady_steps

# A part is believed to repeat from three steps on (timeline/segments.py).
_LEAST_STEPS = 3
# Launches are those of a step if so near a whole number of them come in each (ours): of hundreds of
# steps one at either end may be cut.
_NEAR_WHOLE = 0.05
_SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


def take_common_steps(
    before: Sequence[Sample], after: Sequence[Sample]
) -> tuple[list[Sample], list[Sample]]:
    """Both sides as they are, or in steps that they have in common where one had none."""
    samples = (*before, *after)
    runs = [s.run for s in samples if s.run is not None and s.run.window in (None, "steady")]
    if len(runs) < len(samples) or all(sample.source for sample in samples):
        return [*before], [*after]
    works = [_count_launches(run) for run in runs]
    if works[0] is None or any(work != works[0] for work in works):
        return [*before], [*after]
    sides = [[s if s.source else _take_steps(s) for s in side] for side in (before, after)]
    return sides[0], sides[1]


def _take_steps(sample: Sample) -> Sample:
    assert sample.run is not None
    return take_sample(sample.run.with_window("steady"), sample.name)


def _count_launches(run: Run) -> frozenset[tuple[object, ...]] | None:
    """Which kernels a steady step launches, of which shape and how often; None if unknown."""
    if not run.rows("device_ops"):
        return None
    spans = (
        list_steady_steps(run)
        .group_by("rank")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max(), steps=pl.len())
        .filter(pl.col("steps") >= _LEAST_STEPS)
        .rename({"start_ns": "since", "end_ns": "until"})
    )
    kernels = run.table("device_ops", ["rank", "kind", "name", "start_ns", *_SHAPE])
    counts = (
        kernels.filter(pl.col("kind") == "kernel")
        .join(spans, on="rank")
        .filter(pl.col("start_ns").is_between("since", "until", closed="left"))
        .group_by("rank", "name", *_SHAPE)
        .agg(each=pl.len() / pl.col("steps").first())
    )
    whole = (pl.col("each") - pl.col("each").round()).abs() <= _NEAR_WHOLE
    if counts.is_empty() or not counts.select(whole.all()).item():
        return None
    return frozenset(counts.with_columns(pl.col("each").round()).rows())
