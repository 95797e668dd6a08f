"""Two reports of a kernel profiler against each other: the same kernels, metric by metric.

Each kernel was measured once, alone, at locked clocks as a rule: what differs is stated, and
whether it is more than noise is not.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.compare.matching import name_variant, spell_name
from sightline.core.model.run import Run

SCHEMA = "sightline-compare-kernels/1"
_SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
# Executions by what they have in common, the most telling first; `nth` counts the equal ones.
_LADDER = (
    ("launch shape", ("name", *_SHAPE)),
    ("exact", ("name",)),
    ("spelling", ("spelling",)),
    ("variant", ("variant",)),
)


def has_profiles(run: Run) -> bool:
    """Whether a run is a kernel profiler's report: counters, and no timeline."""
    timeline = run.rows("device_ops") or run.rows("host_ops")
    return bool(run.rows("profiled_kernels")) and not timeline


def compare_profiles(before: Run, after: Run) -> dict[str, Any]:
    """Pairs of kernel executions with their metrics, the longest first; durations in ns.

    Of a metric the total of both executions in base units, where both are numbers; `ratio` is after
    over before, null where before is zero. What has no partner is in `vanished` and `appeared`.
    """
    sides = [_list_kernels(run) for run in (before, after)]
    pairs: list[dict[str, Any]] = []
    for grade, key in _LADDER:
        nth = [
            side.with_columns(nth=pl.int_range(pl.len()).over(key, order_by="kernel_id"))
            for side in sides
        ]
        found = nth[0].join(nth[1], on=[*key, "nth"], how="inner", suffix="_after")
        pairs += [{"match": grade, **row} for row in found.iter_rows(named=True)]
        sides = [
            side.filter(~pl.col("kernel_id").is_in(found.get_column(name).implode()))
            for side, name in zip(sides, ("kernel_id", "kernel_id_after"), strict=True)
        ]
    tables = [_read_totals(run) for run in (before, after)]
    pairs.sort(key=lambda p: -max(p["duration_ns"] or 0, p["duration_ns_after"] or 0))
    return {
        "schema": SCHEMA,
        "devices": [_list_devices(run) for run in (before, after)],
        "clocks_locked": [_are_locked(run) for run in (before, after)],
        "pairs": [_describe_pair(pair, tables) for pair in pairs],
        "vanished": sides[0].get_column("name").to_list(),
        "appeared": sides[1].get_column("name").to_list(),
    }


def _list_kernels(run: Run) -> pl.DataFrame:
    kernels = run.table("profiled_kernels").select("kernel_id", "name", *_SHAPE, "duration_ns")
    name = pl.col("name").fill_null("")
    return kernels.with_columns(
        name,
        *[pl.col(c).fill_null(-1) for c in _SHAPE],
        spelling=name.map_elements(spell_name, return_dtype=pl.String),
        variant=name.map_elements(name_variant, return_dtype=pl.String),
    )


def _read_totals(run: Run) -> pl.DataFrame:
    """Each execution's metrics that are one number."""
    return (
        run.scan("kernel_metrics")
        .filter(pl.col("instance_id").is_null(), pl.col("value").is_not_null())
        .select("kernel_id", "metric", "unit", "value")
        .unique(["kernel_id", "metric"], keep="first", maintain_order=True)
        .collect()
    )


def _describe_pair(pair: dict[str, Any], tables: list[pl.DataFrame]) -> dict[str, Any]:
    one, other = (
        table.filter(pl.col("kernel_id") == pair[key]).drop("kernel_id")
        for table, key in zip(tables, ("kernel_id", "kernel_id_after"), strict=True)
    )
    both = one.join(other, on="metric", suffix="_after", maintain_order="left")
    metrics = both.select(
        "metric",
        "unit",
        before="value",
        after="value_after",
        ratio=pl.when(pl.col("value") != 0).then(pl.col("value_after") / pl.col("value")),
    )
    return {
        "match": pair["match"],
        "name": pair["name"],
        "after_name": pair.get("name_after", pair["name"]),
        "before_shape": [pair[c] for c in _SHAPE],
        "after_shape": [pair.get(f"{c}_after", pair[c]) for c in _SHAPE],
        "before_ns": pair["duration_ns"],
        "after_ns": pair["duration_ns_after"],
        "metrics": metrics.sort("metric").to_dicts(),
    }


def _list_devices(run: Run) -> list[str]:
    names = run.table("devices").get_column("name").drop_nulls().unique()
    return sorted(map(str, names))


def _are_locked(run: Run) -> list[bool]:
    return sorted(set(run.table("profiled_kernels").get_column("clocks_locked").drop_nulls()))
