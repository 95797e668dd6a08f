"""The measured energy of a device, shared out by what ran on it.

A model, not a measurement: between two marks of the meter all kernels that run draw the same power,
and the device draws its idle power (the median of the stretches in which nothing ran) while none
does. What is shared out sums to what was measured.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from sightline.core.algebra.cover import measure_cover_before, measure_run_before
from sightline.timeline.energy import Meter, interpolate


class Shares(NamedTuple):
    """Who used a device's joules.

    `ops`: the operations in the meter's span, cut to it, with `energy_j`. `idle_j` is what was used
    beside them, in the `idle_ns` in which nothing ran; `mark_ns` the usual time between two marks.
    """

    ops: pl.DataFrame
    idle_j: float
    idle_ns: int
    mark_ns: int


def share_energy(meter: Meter, ops: pl.DataFrame) -> Shares:
    """The joules of each operation of the meter's device: start_ns, end_ns, and other columns."""
    marks = meter.marks.filter(pl.col("time_ns").is_between(*meter.span))
    first, last = marks.item(0, "time_ns"), marks.item(-1, "time_ns")
    inside = ops.with_columns(pl.col("start_ns", "end_ns").clip(first, last)).filter(
        pl.col("end_ns") > pl.col("start_ns")
    )
    times = marks.get_column("time_ns")
    cells = marks.with_columns(
        covered=measure_cover_before(inside.select("start_ns", "end_ns"), times),
        ran=measure_run_before(inside, times),
    ).select(pl.all().diff(null_behavior="drop"))
    length, joules = pl.col("time_ns"), pl.col("joules")
    idle_w = cells.filter(pl.col("covered") == 0).select((joules / length).median()).item() or 0.0
    idle = pl.min_horizontal(joules, idle_w * (length - pl.col("covered")))
    # Joules for each ns that any kernel ran: as many for all of them in one cell.
    each = pl.when(pl.col("ran") > 0).then((joules - idle) / pl.col("ran")).otherwise(0.0)
    rate = cells.select(each.alias("each")).to_series()
    used = marks.select("time_ns").with_columns(
        used=pl.concat([pl.Series([0.0]), (rate * cells.get_column("time_ns")).cum_sum()])
    )
    energy = interpolate(used, "used", inside.get_column("end_ns")) - interpolate(
        used, "used", inside.get_column("start_ns")
    )
    whole = float(marks.item(-1, "joules") - marks.item(0, "joules"))
    return Shares(
        inside.with_columns(energy.alias("energy_j")),
        whole - float(energy.sum()),
        last - first - int(cells.get_column("covered").sum()),
        int(times.diff().median() or 0),  # type: ignore[arg-type]
    )
