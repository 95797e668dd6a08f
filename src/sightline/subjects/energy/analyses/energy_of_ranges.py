"""How many joules the devices used while each annotated range was open on the host.

Ranges are NVTX and roctx ranges, PyTorch's record_function, steps, and those of `sightline.range`,
by name. All devices of the range's rank count. A range that is open inside another one is counted
in both; of instances of one name that overlap, as on several threads, each counts. Kernels that a
range launched may run after its end: joules are those of the time, and only the program's own if it
waits for the GPU before the end.

The bounds are the sums of the instances' bounds: as certain as those of the meter, and wide where
instances are shorter than what the meter tells apart.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.timeline.energy import Meter, list_meters, measure_energy
from sightline.timeline.step_clock import list_marked_by_clock

STEPS = "[steps]"
ANALYSIS = Analysis(
    "energy_of_ranges",
    "How many joules did each annotated range take?",
    (
        RANK,
        number("device_id", "device", required=True),
        text("name", f"the range's name; '{STEPS}' for all marked steps"),
        number("instances", "how often it was open"),
        number("measured", "how many of those the meter covers from end to end"),
        duration("total_ns", "for how long those were open in all"),
        real("energy_j", "joules of those", "J"),
        real("low_j", "at least", "J"),
        real("high_j", "at most", "J"),
        real("j_per_instance", "joules of one, on average", "J"),
        real("low_j_per_instance", "at least", "J"),
        real("high_j_per_instance", "at most", "J"),
        real("power_w", "energy over time", "W"),
    ),
    needs=("counters", "host_ops"),
    notes=(
        "Ranges inside others are counted in both: rows must not be added.",
        "Joules are those of the whole device while the range was open, whatever used them.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row a device and name, the most energy first."""
    ranges = _list_ranges(run)
    if ranges.is_empty():
        raise MissingDataError(
            "'energy_of_ranges' cannot be answered",
            why="the recording has no annotated ranges and no steps",
            hint="with sightline.range('forward'): ...   or NVTX, record_function",
        )
    parts = [_measure(meter, ranges.filter(rank=meter.rank)) for meter in list_meters(run)]
    columns = ["energy_j", "low_j", "high_j"]
    each = {
        f"{prefix}j_per_instance": pl.col(f"{name}_j") / pl.col("measured")
        for prefix, name in (("", "energy"), ("low_", "low"), ("high_", "high"))
    }
    instances = ranges.group_by("rank", "name").agg(instances=pl.len().cast(pl.Int64))
    return (
        pl.concat(parts)
        .group_by("rank", "device_id", "name", maintain_order=True)
        .agg(pl.col("measured", "total_ns", *columns).sum())
        .join(instances, on=["rank", "name"])
        .with_columns(**each, power_w=1e9 * pl.col("energy_j") / pl.col("total_ns"))
        .sort("rank", "device_id", "energy_j", "name", descending=[False, False, True, False])
        .select(c.name for c in ANALYSIS.columns)
    )


def _list_ranges(run: Run) -> pl.DataFrame:
    """rank, name, start_ns and end_ns of annotations that last, and of the marked steps."""
    named = run.scan("host_ops").filter(
        pl.col("layer") == "annotation",
        pl.col("range_kind").fill_null("") != "mark",
        pl.col("end_ns") > pl.col("start_ns"),
    )
    columns = ["rank", "name", "start_ns", "end_ns"]
    steps = list_marked_by_clock(run).with_columns(name=pl.lit(STEPS))
    return pl.concat([named.select(columns).collect(), steps.select(columns)])


def _measure(meter: Meter, ranges: pl.DataFrame) -> pl.DataFrame:
    told = measure_energy(meter, ranges.get_column("start_ns"), ranges.get_column("end_ns"))
    length = pl.col("end_ns") - pl.col("start_ns")
    return (
        pl.concat([ranges, told], how="horizontal")
        .drop_nulls("energy_j")
        .group_by("rank", "name", maintain_order=True)
        .agg(
            measured=pl.len().cast(pl.Int64),
            total_ns=length.sum(),
            energy_j=pl.col("energy_j").sum(),
            low_j=pl.col("low_j").sum(),
            high_j=pl.col("high_j").sum(),
        )
        .with_columns(device_id=pl.lit(meter.device_id, pl.Int64))
    )
