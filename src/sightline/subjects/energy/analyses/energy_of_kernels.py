"""How many joules each kernel used: the measured energy, shared out by what ran.

A model, not a measurement: between two marks of the meter all kernels that run draw the same power,
and the device draws its idle power (the median of the stretches in which nothing ran) while none
does. What is shared out sums to what was measured. A kernel whose instances are much shorter than
the time between two marks is only told from the others by running without them often enough.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, pct, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.energy import Meter, list_meters
from sightline.timeline.energy_shares import share_energy

NOTHING = "[nothing ran]"
ANALYSIS = Analysis(
    "energy_of_kernels",
    "How many joules did each kernel use?",
    (
        RANK,
        number("device_id", "device", required=True),
        text("name", f"the kernel, copy or fill; '{NOTHING}' for the rest of the time"),
        number("instances", "how often it ran while the energy was measured"),
        duration("total_ns", "for how long, in all"),
        real("energy_j", "its part of the measured energy", "J"),
        pct("energy_pct", "of the device's measured energy"),
        real("power_w", "energy over time", "W"),
        duration("mark_ns", "the usual time between two marks of the meter"),
        text("method", "counter (of joules) or power (integrated)"),
    ),
    needs=("counters", "device_ops"),
    notes=("Of each device the parts sum to what was measured.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per device and name, the most energy first."""
    ops = run.table("device_ops", ["rank", "device_id", "name", "start_ns", "end_ns"])
    parts = [
        _add_up(meter, ops.filter(rank=meter.rank, device_id=meter.device_id))
        for meter in list_meters(run)
    ]
    columns = [c.name for c in ANALYSIS.columns]
    key = ["rank", "device_id", "name"]
    shared = (
        pl.concat(parts)
        .group_by(*key, "mark_ns", "method", maintain_order=True)
        .agg(pl.col("instances", "total_ns", "energy_j").sum())
    )
    whole = pl.col("energy_j").sum().over("rank", "device_id")
    return (
        shared.with_columns(
            energy_pct=pl.when(whole > 0).then(100 * pl.col("energy_j") / whole),
            power_w=pl.when(pl.col("total_ns") > 0).then(
                1e9 * pl.col("energy_j") / pl.col("total_ns")
            ),
        )
        .sort("rank", "device_id", "energy_j", "name", descending=[False, False, True, False])
        .select(columns)
    )


def _add_up(meter: Meter, ops: pl.DataFrame) -> pl.DataFrame:
    """name, instances, total_ns and energy_j of what ran on a device between the meter's marks."""
    shares = share_energy(meter, ops)
    kernels = shares.ops.group_by("name", maintain_order=True).agg(
        instances=pl.len().cast(pl.Int64),
        total_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
        energy_j=pl.col("energy_j").sum(),
    )
    rest = pl.DataFrame(
        {
            "name": [NOTHING],
            "instances": [None],
            "total_ns": [shares.idle_ns],
            "energy_j": [shares.idle_j],
        },
        schema=kernels.schema,
    )
    return pl.concat([kernels, rest]).with_columns(
        rank=pl.lit(meter.rank, pl.Int64),
        device_id=pl.lit(meter.device_id, pl.Int64),
        mark_ns=pl.lit(shares.mark_ns, pl.Int64),
        method=pl.lit(meter.method),
    )
