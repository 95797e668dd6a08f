"""The power limit held clocks down while the GPUs worked.

Symptom
    Power at the limit, the SM clock below its highest, the same job slower on some nodes.

Why it hurts
    What is limited by arithmetic takes as much longer as the clock is lower. It wastes no energy:
    lower clocks take less for the same work, so the finding has a cost and no gain.

Evidence
    Samples of a busy device with the bit of the power cap or of the power brake among NVML's clock
    event reasons, or a rise of the driver's counter of that time (DCGM's power violation); clocks
    then and at other busy times of the same device.

Threshold
    Over 5 % of the measured energy (TraceLens agent, 2026-08: its threshold for time).

Fix
    Raise the limit where the machine allows it, or leave it: `sightline stats energy_of_work` shows
    what the same work takes at each limit that was recorded.

False positives
    A limit that was set on purpose. Dense tensor-core work reaches the limit of most GPUs.

References
    NVIDIA NVML API Reference, nvmlClocksEventReasonSwPowerCap; DCGM, DCGM_FI_DEV_POWER_VIOLATION.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_hours
from sightline.diagnosis.build import NOTABLE_PCT, Advice, build_finding
from sightline.subjects.energy.rules._shared import (
    name_gpus,
    price_energy,
    show_stretches,
    write_bounds,
    write_share,
)
from sightline.timeline.device_use import (
    BUSY,
    CLOCK,
    DEVICE,
    list_stretches,
    measure_all,
    measure_power_limited,
    measure_stretches,
    sample_use,
)

RULE = Rule("power-bound", "The power limit holds clocks down")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices: a remark, since no energy is lost."""
    samples = sample_use(run).with_columns(limited=measure_power_limited())
    busy = samples.filter(pl.col("state") == BUSY)
    bound = busy.filter(pl.col("limited") > 0)
    if bound.is_empty():
        return
    found = measure_stretches(run, list_stretches(bound)).with_columns(
        (pl.col("duration_ns") * pl.col("limited")).round().cast(pl.Int64),
        pl.col("energy_j", "low_j", "high_j") * pl.col("limited"),
    )
    cost = float(found.get_column("energy_j").sum())
    if 100 * cost < NOTABLE_PCT * measure_all(run):
        return
    lost_ns = int(found.get_column("duration_ns").sum())
    theirs = busy.join(found.select(DEVICE).unique(), on=DEVICE, how="semi")
    length = int(theirs.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item())
    yield build_finding(
        RULE,
        f"The power limit lowered the clocks of {name_gpus(found)} for {format_hours(lost_ns)} in "
        f"all, {100 * lost_ns / length:.0f} % of their busy time, which took "
        f"{write_share(run, cost)}.",
        show_stretches(found, [*_describe_clocks(busy), write_bounds(found)]),
        Advice(
            fix="raise the limit where time matters (nvidia-smi -pl); where energy matters, "
            "leave it: lower clocks use less energy for the same work",
            verify="sightline stats energy_of_work AFTER: power_limited_pct",
            cause="the GPUs draw as much power as their limit allows",
            sources=("NVML API Reference: nvmlClocksEventReasonSwPowerCap",),
        ),
        price=price_energy(run, cost, None),
        method=None,
    )


def _describe_clocks(busy: pl.DataFrame) -> Iterator[str]:
    """What clocks were lowered to, against the highest of the same devices while busy."""
    clocks = busy.drop_nulls(CLOCK).join(
        busy.group_by(DEVICE).agg(best=pl.col(CLOCK).max()), on=DEVICE
    )
    lowered = clocks.filter(pl.col("limited") > 0)
    if lowered.is_empty():
        yield "the SM clock was not sampled: how far it was lowered is not known"
        return
    mean, best = lowered.select(pl.col(CLOCK).mean(), pl.col("best").mean().alias("best")).row(0)
    yield f"SM clock {mean:.0f} MHz on average meanwhile, {best:.0f} MHz at its highest while busy"
