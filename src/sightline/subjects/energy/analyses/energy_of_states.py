"""How long each device was idle, busy, or busy in nvidia-smi's eyes only, and what that cost.

A stretch is a time without a change of state or a gap between samples. `held` is memory of a GiB or
more in use meanwhile: a process keeps the device from others. What the meter does not cover of a
stretch has a duration and no joules.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, flag, number, real, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.timeline.device_use import (
    BUSY,
    CLOCK,
    HELD,
    IDLE,
    SEEMING,
    SHOWN,
    TRUE,
    list_stretches,
    measure_stretches,
    sample_use,
)
from sightline.timeline.use_thresholds import HELD_BYTES

ANALYSIS = Analysis(
    "energy_of_states",
    "How many joules did each device use while it was idle, and while it was busy?",
    (
        RANK,
        number("device_id", "device", required=True),
        text(
            "state", f"'{IDLE}', '{SEEMING}' (nvidia-smi's figure is high, SM active low), '{BUSY}'"
        ),
        flag("held", "whether memory was in use meanwhile; null where that was not sampled"),
        time("start_ns", "start of the stretch"),
        time("end_ns", "its end"),
        duration("duration_ns", "its length"),
        duration("measured_ns", "how much of it the meter covers"),
        real("energy_j", "best value", "J"),
        real("low_j", "at least", "J"),
        real("high_j", "at most", "J"),
        real("power_w", "energy over the time that was measured", "W"),
        real("utilization_pct", "nvidia-smi's utilization", "%"),
        real("sm_active_pct", "share of SMs with a warp", "%"),
        real("memory_used", "mean of the memory in use", "bytes"),
        real("clock_mhz", "mean of the SM clock", "MHz"),
    ),
    needs=("counters",),
    notes=("A sample stands for the time since the one before it; gaps of samples are left out.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row a stretch, in order of device and time."""
    samples = sample_use(run).drop_nulls("state")
    if samples.is_empty():
        raise MissingDataError(
            "'energy_of_states' cannot be answered",
            why="no device's utilization or SM activity was sampled over time",
            hint="sightline watch -o gpu-history  records both",
        )
    marked = samples.with_columns(held=pl.col(HELD) >= HELD_BYTES)
    names = {
        SHOWN: "utilization_pct",
        TRUE: "sm_active_pct",
        HELD: "memory_used",
        CLOCK: "clock_mhz",
    }
    seconds = pl.col("measured_ns") / 1e9
    return (
        measure_stretches(run, list_stretches(marked, "state", "held"))
        .rename(names)
        .with_columns(power_w=pl.when(seconds > 0).then(pl.col("energy_j") / seconds))
        .select(c.name for c in ANALYSIS.columns)
    )
