"""What each device was used for in all: nvidia-smi's figure beside the true one, joules, limits.

Means are over the time that samples stand for. Temperatures are of the first and the last tenth of
the samples; whether a device was still warming is told by the slope of the last third: leakage
rises with temperature, so the same work takes more joules on a warm device, and a figure belongs to
its thermal state (Zeus 0.16 measures after a warm-up, and keeps the temperature with the figure).
"""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.columns import RANK, duration, number, pct, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.timeline.device_use import (
    CLOCK,
    DEVICE,
    DRAM,
    HEAT_BITS,
    HELD,
    IDLE,
    REASONS,
    SHOWN,
    TEMPERATURE,
    TRUE,
    average_over_time,
    list_stretches,
    measure_power_limited,
    measure_stretches,
    sample_use,
)
from sightline.timeline.energy import list_meters, measure_energy
from sightline.timeline.use_thresholds import PIPES, find_busiest_pipe

ANALYSIS = Analysis(
    "device_use",
    "What was each device used for, and how many joules did it take?",
    (
        RANK,
        number("device_id", "device", required=True),
        text("name", "the device's name"),
        duration("sampled_ns", "for how long its utilization is known"),
        real("utilization_pct", "nvidia-smi's utilization: time with any kernel running", "%"),
        real("sm_active_pct", "share of SMs with a warp", "%"),
        text("pipe", "the busiest pipe"),
        real("pipe_pct", "share of cycles in which that pipe was active", "%"),
        real("dram_active_pct", "share of cycles in which the memory's bus transferred", "%"),
        real("memory_used", "the most memory in use", "bytes"),
        real("clock_mhz", "mean SM clock", "MHz"),
        duration("measured_ns", "for how long its energy was measured"),
        real("energy_j", "best value", "J"),
        real("low_j", "at least", "J"),
        real("high_j", "at most", "J"),
        real("power_w", "energy over the time that was measured", "W"),
        real("idle_power_w", "the same for idle stretches, two readings away from any work", "W"),
        pct("idle_pct", "share of the sampled time in which it was idle"),
        pct("power_limited_pct", "share in which the power limit lowered clocks"),
        pct("heat_limited_pct", "share in which heat, or the hardware's slowdown, lowered them"),
        real("temperature_start_c", "temperature at the beginning", "C"),
        real("temperature_end_c", "temperature at the end", "C"),
        real(
            "warming_c_per_min",
            "slope of the last third; null where whole degrees do not show",
            "C/min",
        ),
    ),
    needs=("counters",),
    notes=("A missing reading is null, never zero.",),
)
_SECOND = 1_000_000_000
_LEAST_SAMPLES = 6  # a slope of fewer is one of whole degrees


def run(run: Run) -> pl.DataFrame:
    """One row a device. Raises MissingDataError where neither use nor energy was sampled."""
    samples = sample_use(run).with_columns(limited=measure_power_limited())
    energy = _sum_energy(run)
    used = samples.partition_by(DEVICE, as_dict=True)
    if not used and not energy:
        raise MissingDataError(
            "'device_use' cannot be answered",
            why="neither a device's use nor its energy was sampled over time",
            hint="sightline watch -o gpu-history",
        )
    idle = _measure_idle_power(run, samples) if energy else {}
    names = {(r, d): n for r, d, n in run.table("devices").select(*DEVICE, "name").iter_rows()}
    schema = {c.name: c.dtype for c in ANALYSIS.columns}
    rows = [
        {
            **dict(zip(DEVICE, place, strict=True)),
            "name": names.get(place),
            **(_average(used[place]) if place in used else {}),
            **energy.get(place, {}),
            "idle_power_w": idle.get(place),
        }
        for place in sorted({*used, *energy})
    ]
    return pl.DataFrame([{n: row.get(n) for n in schema} for row in rows], schema=schema)


def _average(mine: pl.DataFrame) -> dict[str, Any]:
    length = pl.col("end_ns") - pl.col("start_ns")
    heat = (pl.col(REASONS).cast(pl.Int64) & HEAT_BITS != 0) & (pl.col("state") != IDLE)
    told = mine.select(
        sampled_ns=length.sum(),
        utilization_pct=average_over_time(SHOWN),
        sm_active_pct=average_over_time(TRUE),
        dram_active_pct=average_over_time(DRAM),
        memory_used=pl.col(HELD).max(),
        clock_mhz=average_over_time(CLOCK),
        idle_pct=_share(pl.col("state") == IDLE),
        heat_limited_pct=_share(heat),
        power_limited_pct=100 * (pl.col("limited") * length).sum() / _known(pl.col("limited")),
    ).row(0, named=True)
    pipes = mine.select(average_over_time(pipe) for pipe in PIPES).row(0, named=True)
    pipe, share = find_busiest_pipe(pipes)
    return {**told, "pipe": pipe or None, "pipe_pct": share, **_measure_temperature(mine)}


def _known(value: pl.Expr) -> pl.Expr:
    """For how long a value is known; null for never."""
    length = (pl.col("end_ns") - pl.col("start_ns")).filter(value.is_not_null()).sum()
    return pl.when(length > 0).then(length)


def _share(holds: pl.Expr) -> pl.Expr:
    length = (pl.col("end_ns") - pl.col("start_ns")).filter(holds).sum()
    return 100 * length / _known(holds)


def _measure_temperature(mine: pl.DataFrame) -> dict[str, float | None]:
    rows = mine.drop_nulls(TEMPERATURE).select(TEMPERATURE, minutes=pl.col("end_ns") / 60e9)
    if rows.height < _LEAST_SAMPLES:
        return {}
    ends = -(-rows.height // 10)
    last = rows.tail(max(rows.height // 3, _LEAST_SAMPLES))
    variance = pl.col("minutes").var()
    slope = pl.cov("minutes", TEMPERATURE) / pl.when(variance > 0).then(variance)
    # Sensors tell whole degrees: a smaller change within less than a minute may be none.
    minutes = pl.col("minutes").max() - pl.col("minutes").min()
    is_known = (minutes >= 1) | ((slope * minutes).abs() >= 1)
    return {
        "temperature_start_c": rows.head(ends).select(pl.col(TEMPERATURE).mean()).item(),
        "temperature_end_c": rows.tail(ends).select(pl.col(TEMPERATURE).mean()).item(),
        "warming_c_per_min": last.select(pl.when(is_known).then(slope)).item(),
    }


def _sum_energy(run: Run) -> dict[tuple[int, int | None], dict[str, float]]:
    """Joules with bounds of each device, over all parts of its meter; none without a meter."""
    try:
        meters = list_meters(run)
    except MissingDataError:
        return {}
    found: dict[tuple[int, int | None], dict[str, float]] = {}
    for meter in meters:
        first, last = meter.span
        told = measure_energy(meter, pl.Series([first]), pl.Series([last])).row(0, named=True)
        mine = found.setdefault((meter.rank, meter.device_id), {"measured_ns": 0})
        mine["measured_ns"] += last - first
        for name, joules in told.items():
            mine[name] = mine.get(name, 0.0) + (joules or 0.0)
    for mine in found.values():
        if mine["measured_ns"]:
            mine["power_w"] = mine["energy_j"] / (mine["measured_ns"] / _SECOND)
    return found


def _measure_idle_power(run: Run, samples: pl.DataFrame) -> dict[tuple[int, int], float]:
    """W of each device while it idled, two readings away from any work.

    A meter's mark lies between two readings, so what begins there is counted before it, too.
    """
    reading = samples.select((pl.col("end_ns") - pl.col("start_ns")).median()).item()
    edge = 2 * int(reading or 0)
    idle = list_stretches(samples.filter(pl.col("state") == IDLE)).with_columns(
        pl.col("start_ns") + edge, pl.col("end_ns") - edge
    )
    told = measure_stretches(run, idle.filter(pl.col("end_ns") - pl.col("start_ns") >= _SECOND))
    seconds = pl.col("measured_ns").sum() / _SECOND
    rows = (
        told.filter(pl.col("measured_ns") > 0)
        .group_by(DEVICE)
        .agg(power=pl.col("energy_j").sum() / seconds)
    )
    return {(rank, device): power for rank, device, power in rows.iter_rows()}
