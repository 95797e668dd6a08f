"""What the same work cost at each power limit and clock that a device ran at.

Work is counted in cycles in which the device's busiest pipe was active: its activity times the SM
clock (DCGM's profiling fields, or GPM): instructions that were executed, whatever else waited. SM
activity is no measure of work: an SM that waits for memory counts as active. Only busy time counts,
so what idling costs is not in it.

Two rows tell of the same kind of work where `dram_per_work` is the same: the memory's traffic for
each cycle of the pipe.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.timeline.device_use import (
    BUSY,
    CLOCK,
    DEVICE,
    DRAM,
    LIMIT,
    list_stretches,
    measure_power_limited,
    measure_stretches,
    sample_use,
)
from sightline.timeline.use_thresholds import PIPES

# Clocks differ by 15 MHz from one sample to the next (H100's steps); levels are wider (ours).
_LEVEL_MHZ = 100
ANALYSIS = Analysis(
    "energy_of_work",
    "How many joules did the same work take at each power limit and clock?",
    (
        RANK,
        number("device_id", "device", required=True),
        real("power_limit_w", "the power limit in force; null where it was not sampled", "W"),
        real("level_mhz", "SM clock, to the nearest 100 MHz", "MHz"),
        text("pipe", "the busiest pipe of the device, whose active cycles are the work"),
        duration("duration_ns", "for how long it was busy and measured"),
        real("clock_mhz", "mean SM clock", "MHz"),
        real("work_tcycles", "cycles of an SM with the pipe active", "10¹² cycles"),
        real("work_per_s", "work over time", "10⁹ cycles/s"),
        real("dram_per_work", "memory activity for each share of the pipe's highest clock"),
        real("energy_j", "best value", "J"),
        real("low_j", "at least", "J"),
        real("high_j", "at most", "J"),
        real("j_per_tcycle", "energy over work", "J"),
        real("power_limited_pct", "share of the time in which the limit lowered clocks", "%"),
    ),
    needs=("counters",),
)


def run(run: Run) -> pl.DataFrame:
    """One row a device, limit and level, the level of most energy first."""
    samples = sample_use(run)
    work = _measure_work(samples)
    if work.is_empty():
        raise MissingDataError(
            "'energy_of_work' cannot be answered",
            why="no pipe's activity was sampled together with the SM clock while a device was busy",
            hint="sightline watch -o gpu-history  on Hopper or later; else dcgmi dmon -e "
            "100,155,203,1002,1004,1005",
        )
    by = ["pipe", "power_limit_w", "level_mhz"]
    told = measure_stretches(run, list_stretches(work, *by)).filter(pl.col("measured_ns") > 0)
    length = pl.col("measured_ns")
    share = length / length.sum()
    seconds = length.sum() / 1e9
    return (
        told.group_by(*DEVICE, *by, maintain_order=True)
        .agg(
            duration_ns=length.sum(),
            clock_mhz=(pl.col(CLOCK) * share).sum(),
            work_tcycles=(pl.col("work") * length).sum() / 1e9 / 1e12,
            work_per_s=(pl.col("work") * length).sum() / 1e9 / seconds / 1e9,
            dram_per_work=pl.when(pl.col(DRAM).is_not_null().all()).then(
                (pl.col(DRAM) * length).sum() / (pl.col("work") * length).sum() * 1e9
            ),
            energy_j=pl.col("energy_j").sum(),
            low_j=pl.col("low_j").sum(),
            high_j=pl.col("high_j").sum(),
            power_limited_pct=100 * (pl.col("limited") * share).sum(),
        )
        .with_columns(j_per_tcycle=pl.col("energy_j") / pl.col("work_tcycles"))
        .sort(*DEVICE, "energy_j", descending=[False, False, True])
        .select(c.name for c in ANALYSIS.columns)
    )


def _measure_work(samples: pl.DataFrame) -> pl.DataFrame:
    """Busy samples with the rate of their work, cycles/s, and the pipe, limit and level."""
    parts = []
    for mine in samples.with_columns(limited=measure_power_limited()).partition_by(DEVICE):
        rates = {p: pl.col(p) / 100 * pl.col(CLOCK) * 1e6 for p in PIPES}
        sums = mine.select(rate.sum().alias(p) for p, rate in rates.items()).row(0, named=True)
        best = max(sums, key=lambda p: sums[p] or 0.0)
        if not sums[best]:
            continue
        parts.append(
            mine.with_columns(
                work=rates[best],
                pipe=pl.lit(PIPES[best]),
                power_limit_w=pl.col(LIMIT).round(),
                level_mhz=(pl.col(CLOCK) / _LEVEL_MHZ).round() * _LEVEL_MHZ,
            ).filter(pl.col("state") == BUSY, pl.col("work") > 0)
        )
    return pl.concat(parts) if parts else samples.clear()
