"""How many joules each device used while it was measured, and in the steps of the program.

docs/energy.md says how far each figure can be trusted: between low_j and high_j lies the truth as
far as the sensor is right. Joules are those of the GPU's board, or of its module where the GPU has
no other sensor; not of the host.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, real, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.energy import Meter, list_meters, measure_energy
from sightline.timeline.step_clock import list_marked_by_clock

MEASURED = "while measured"
ANALYSIS = Analysis(
    "energy",
    "How many joules did each device use?",
    (
        RANK,
        number("device_id", "device", required=True),
        text(
            "part",
            f"'{MEASURED}': from the first to the last mark of the meter; or the step's text",
        ),
        time("start_ns", "start of the part"),
        time("end_ns", "end of the part"),
        duration("duration_ns", "its length"),
        real("energy_j", "best value", "J"),
        real("low_j", "at least", "J"),
        real("high_j", "at most", "J"),
        real("power_w", "energy over time", "W"),
        text("method", "counter (of joules) or power (integrated)"),
    ),
    needs=("counters",),
    notes=(
        "A counter that was reset gives a row for each part between resets.",
        "Steps that the meter does not cover from end to end are left out.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row a device, then one a step of it, in order of time."""
    steps = list_marked_by_clock(run) if run.rows("host_ops") else None
    parts = [_measure_meter(meter, steps) for meter in list_meters(run)]
    columns = [c.name for c in ANALYSIS.columns]
    return pl.concat(parts).select(columns)


def _measure_meter(meter: Meter, steps: pl.DataFrame | None) -> pl.DataFrame:
    first, last = meter.span
    asked = pl.DataFrame({"part": [MEASURED], "start_ns": [first], "end_ns": [last]})
    if steps is not None:
        mine = steps.filter(pl.col("rank") == meter.rank)
        asked = pl.concat(
            [asked, mine.select("start_ns", "end_ns", part="step").select(asked.columns)]
        )
    told = measure_energy(meter, asked.get_column("start_ns"), asked.get_column("end_ns"))
    length = pl.col("end_ns") - pl.col("start_ns")
    return (
        pl.concat([asked, told], how="horizontal")
        .drop_nulls("energy_j")
        .with_columns(
            rank=pl.lit(meter.rank, pl.Int64),
            device_id=pl.lit(meter.device_id, pl.Int64),
            duration_ns=length,
            power_w=pl.when(length > 0).then(pl.col("energy_j") / (length / 1e9)),
            method=pl.lit(meter.method),
        )
    )
