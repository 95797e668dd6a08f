"""How much shorter the GPU's work would be if every operator reached its roof."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.roofline.operator_roofs import list_operator_kernels, place_operators

ANALYSIS = Analysis(
    "gap_to_peak",
    "How much shorter would the GPU's work be if every operator reached its roof?",
    (
        RANK,
        number("device_id", "device"),
        text("kind", "kind of operator; '(not modeled)' for all other kernels", required=True),
        number("kernels", "compute kernels"),
        duration("kernel_ns", "their durations, added up"),
        pct("kernel_pct", "kernel_ns, % of the device's compute kernels"),
        duration("roof_ns", "what they would take at their roofs"),
        duration("gap_ns", "what they take beyond that"),
        pct("gap_pct", "gap_ns, % of the device's compute kernels"),
    ),
    needs=("host_ops", "device_ops"),
    notes=(
        "A waterfall: a device's gaps and roofs add up to its compute kernels' durations, "
        "'(not modeled)' and calls without a known roof aside, which have none.",
        "The roof is the datasheet's peak or bandwidth, whichever takes longer (sightline stats "
        "operator_efficiency). What lies above it is an upper bound: no kernel reaches all of it.",
    ),
)

NOT_MODELED = "(not modeled)"


def run(run: Run) -> pl.DataFrame:
    """One row per device and kind of operator, the largest gap first."""
    # A call above its roof (a cache, Winograd) has no gap, and makes up for no other call's.
    roof = pl.min_horizontal("kernel_ns", "roof_ns")
    calls = place_operators(run).with_columns(
        kind=pl.when(pl.col("roof_ns").is_null()).then(pl.lit(NOT_MODELED)).otherwise("kind"),
        roof_ns=roof.round().cast(pl.Int64),
    )
    place = ["rank", "device_id"]
    others = list_operator_kernels(run).filter(pl.col("owner").is_null())
    parts = pl.concat(
        [
            calls.select(*place, "kind", "kernels", "kernel_ns", "roof_ns"),
            others.select(
                *place,
                kind=pl.lit(NOT_MODELED),
                kernels=pl.lit(1, pl.UInt32),
                kernel_ns="length",
                roof_ns=pl.lit(None, pl.Int64),
            ),
        ],
        how="vertical_relaxed",
    )
    known = pl.when(pl.col("kind") != NOT_MODELED)
    whole = pl.col("kernel_ns").sum().over(place)
    return (
        parts.group_by(*place, "kind")
        .agg(pl.col("kernels", "kernel_ns", "roof_ns").sum())
        .with_columns(roof_ns=known.then("roof_ns"))
        .with_columns(gap_ns=pl.col("kernel_ns") - pl.col("roof_ns"))
        .with_columns(
            kernel_pct=(100 * pl.col("kernel_ns") / whole).fill_nan(0.0),
            gap_pct=(100 * pl.col("gap_ns") / whole).fill_nan(0.0),
        )
        .sort(*place, "gap_ns", "kind", descending=[False, False, True, False], nulls_last=True)
        .select(column.name for column in ANALYSIS.columns)
    )
