"""Kernels launch shape by launch shape: how long one launch takes, and whether that changed.

Small launches vary many times as much as large ones (24.6 % with a quarter of a block per SM
against 0.5 to 1.5 % with one and more: ROCm/FlyDSL#924), so the noise of a kernel that is launched
in several shapes hides what happened to one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from sightline.compare.sample import KEY, Sample
from sightline.compare.statistics import Spread, adjust_p_values, compare_runs, measure_spread
from sightline.timeline.own_time import list_operations

_GRID, _BLOCK = ("grid_x", "grid_y", "grid_z"), ("block_x", "block_y", "block_z")
_BY = ["group", "shape"]


def compare_shapes(
    before: Sequence[Sample], after: Sequence[Sample], matched: pl.DataFrame
) -> dict[int, list[dict[str, Any]]]:
    """For each pair of kernels with several launch shapes on both sides a row per shape.

    `matched` is what `match_leaves` returns. Times are the mean of one launch, ns; the false
    discovery rate is over all shapes of all pairs.
    """
    sides = [
        [_measure_shapes(sample, matched.filter(pl.col("side") == side)) for sample in samples]
        for side, samples in enumerate((before, after))
    ]
    known = [set.intersection(*(set(run) for run in side)) for side in sides]
    both = sorted(known[0] & known[1])
    counts: dict[int, int] = {}
    for pair, _ in both:
        counts[pair] = counts.get(pair, 0) + 1
    several = [key for key in both if counts[key[0]] > 1]
    tests = [compare_runs(*([run[key] for run in side] for side in sides)) for key in several]  # type: ignore[arg-type]
    rates = adjust_p_values([test.p_value for test in tests])
    found: dict[int, list[dict[str, Any]]] = {}
    for key, test, rate in zip(several, tests, rates, strict=True):
        one, other = (sum(run[key].mean for run in side) / len(side) for side in sides)
        found.setdefault(key[0], []).append(
            {
                "shape": key[1],
                "before_launch_ns": one,
                "after_launch_ns": other,
                "ratio": test.ratio,
                "p_value": test.p_value,
                "false_discovery_rate": rate,
                "level": test.level,
            }
        )
    return found


def _measure_shapes(sample: Sample, matched: pl.DataFrame) -> dict[tuple[int, str], Spread]:
    """By pair and shape, how the mean length of a launch varies over the steps of a run."""
    if sample.run is None or not sample.has_device:
        return {}
    grid, block = (
        pl.concat_str([pl.col(c) for c in names], separator="×") for names in (_GRID, _BLOCK)
    )
    shapes = (
        sample.run.table("device_ops")
        .filter(pl.col("kind") == "kernel")
        .select("device_op_id", "name", shape=pl.format("{} blocks of {}", grid, block))
        .drop_nulls("shape")
        .filter(pl.col("shape").n_unique().over("name") > 1)
    )
    ops = list_operations(sample.run).rename({"class_": "part"})
    ops = ops.join(shapes.select("device_op_id", "shape"), on="device_op_id")
    pairs = matched.select(*KEY, group="pair")
    rows = (
        ops.with_columns(pl.col(KEY).cast(pl.String))
        .join(pairs, on=KEY, nulls_equal=True)
        .select(*_BY, "rank", "start_ns", length=pl.col("end_ns") - pl.col("start_ns"))
        .sort("start_ns")
        .join_asof(
            sample.edges.select("rank", "start_ns", "step").sort("start_ns"),
            on="start_ns",
            by="rank",
            check_sortedness=False,
        )
        .group_by(*_BY, pl.col("step").fill_null(0))
        .agg(pl.col("length").mean())
        .sort(*_BY, "step")
        .group_by(_BY, maintain_order=True)
        .agg("length")
    )
    return {(pair, shape): measure_spread(lengths) for pair, shape, lengths in rows.iter_rows()}
