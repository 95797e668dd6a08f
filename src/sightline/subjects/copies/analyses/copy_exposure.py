"""How long copies and memsets ran with nothing more useful beside them, by the rule that speaks."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.copies import measure_exposed_copies

ANALYSIS = Analysis(
    "copy_exposure",
    "Which copies and memsets are not hidden behind other work?",
    (
        RANK,
        number("device_id", "device", required=True),
        text("rule", "rule that reports these copies", required=True),
        duration("total_ns", "they ran, and neither compute nor communication did"),
    ),
    needs=("device_ops",),
    notes=("total_ns of a device's rows sum to its exposed_copy_ns in `breakdown` exactly.",),
    worst="total_ns",
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank, device and rule."""
    by = ["rank", "device_id"]
    return (
        measure_exposed_copies(run)
        .unpivot(index=by, variable_name="rule", value_name="total_ns")
        .sort(*by, "rule")
    )
