"""GPUs draw power while nothing runs on them.

Symptom
    nvidia-smi shows 0 % for hours, and the power bill does not.

Why it hurts
    An idle GPU of a data center draws 60 to 120 W, more where a process holds a context, and keeps
    others from using it.

Evidence
    Stretches in which no sample of the utilization, or of SM active where that was read, was above
    1 %, and the energy that the meter counted meanwhile (`sightline stats energy_of_states`), with
    its bounds. The gain is all of it: an upper bound, what is saved if the GPUs are given back and
    do others' work, or are switched off. What ending the processes alone would save is told where
    the recording shows what the same GPU draws without them.

Threshold
    Ten minutes without use (Kubernetes' cluster autoscaler, --scale-down-unneeded-time: 10m), and
    over 5 % of the measured energy (TraceLens agent, 2026-08: its threshold for time).

Fix
    End sessions that hold memory and do nothing (notebooks, servers without requests); give GPUs
    back to the scheduler; let it power down nodes (Slurm: SuspendTime).

False positives
    A server that has to answer at once; GPUs kept free on purpose.

References
    Kubernetes Autoscaler FAQ, "How does scale-down work?"; Slurm Power Saving Guide.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_hours, format_joules
from sightline.diagnosis.build import NOTABLE_PCT, Advice, build_finding
from sightline.subjects.energy.rules._shared import (
    describe_devices,
    find_parked_power,
    list_long_stretches,
    name_gpus,
    price_energy,
    show_stretches,
    write_bounds,
    write_share,
)
from sightline.timeline.device_use import IDLE, measure_all

RULE = Rule("idle-burn", "GPUs draw power while idle")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    idle = list_long_stretches(run, IDLE)
    cost = float(idle.get_column("energy_j").sum())
    if not cost or 100 * cost < NOTABLE_PCT * measure_all(run):
        return
    held = idle.filter(pl.col("held"))
    yield build_finding(
        RULE,
        f"{name_gpus(idle)} did nothing for {format_hours(sum_column(idle, 'duration_ns'))} in "
        f"all, and used {write_share(run, cost)}.",
        show_stretches(
            idle, [*describe_devices(idle), write_bounds(idle), *_describe_parking(run, held)]
        ),
        Advice(
            fix="end what holds memory and does nothing, return the GPUs to the scheduler, or "
            "let it power their nodes down",
            verify="sightline stats energy_of_states AFTER: less energy in 'idle'",
            cause="memory is held by processes that do nothing" if held.height else "no work",
            sources=("Kubernetes cluster autoscaler: --scale-down-unneeded-time, 10m",),
        ),
        price=price_energy(run, cost, cost),
        method="all energy of the idle stretches: what giving the GPUs to others' work, or "
        "switching them off, saves",
    )


def _describe_parking(run: Run, held: pl.DataFrame) -> Iterator[str]:
    """What ending the processes that hold memory saves by itself, where that was seen."""
    if held.is_empty():
        return
    used = float(held.get_column("low_j").sum())
    seconds = sum_column(held, "measured_ns") / 1e9
    parked = find_parked_power(run)
    if parked is None:
        yield "what it draws without processes is not in the recording"
        return
    saved = max(0.0, used - parked["high_w"] * seconds)
    yield (
        f"without memory in use it idles at {parked['power_w']:.0f} W: ending the processes alone "
        f"saves {format_joules(saved)}"
    )
