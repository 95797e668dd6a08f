"""nvidia-smi shows a busy GPU whose SMs have hardly anything to do.

Symptom
    nvidia-smi's utilization is near 100 %, power is far below the limit, and little gets done.

Why it hurts
    Utilization is the share of time with any kernel running: one block of one kernel makes it
    100 %. The rest of the GPU idles, and the GPU's own power is drawn for as long as that takes.

Evidence
    Stretches with a utilization of 80 % and more and SM active under 10 %, and their energy
    (`sightline stats energy_of_states`). The gain is a bound: the same SM time packed onto a full
    GPU leaves it free for the rest of the time, which then need not draw what the GPU draws when
    idle. That is known only where the recording shows the GPU idle, too; else there is no gain.

Threshold
    SM active under a tenth: DCGM's user guide calls less than 0.5 likely ineffective, and a tenth
    is a few SMs. Stretches of ten minutes (Kubernetes' cluster autoscaler), over 5 % of the
    measured energy (TraceLens agent, 2026-08).

Fix
    Larger batches or more blocks a launch; several processes on one GPU (MPS), or parts of it
    (MIG); look at a trace for one kernel of few blocks at a time.

False positives
    A server that waits for requests in a spinning kernel.

References
    NVIDIA DCGM User Guide, "Profiling Metrics": SM Activity.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import average_column, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_hours
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
from sightline.timeline.device_use import SEEMING, measure_all

RULE = Rule("busy-but-idle", "Busy by nvidia-smi, idle in fact")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    found = list_long_stretches(run, SEEMING)
    cost = float(found.get_column("energy_j").sum())
    if not cost or 100 * cost < NOTABLE_PCT * measure_all(run):
        return
    parked = find_parked_power(run)
    # The SM time that was used would fill so much of a GPU's time, and no more.
    free_s = (pl.col("measured_ns") / 1e9 * (1 - pl.col("sm_active_pct") / 100)).sum()
    shown = average_column(found, "utilization_pct")
    true = average_column(found, "sm_active_pct")
    yield build_finding(
        RULE,
        f"nvidia-smi shows {shown:.0f} % for {name_gpus(found)} over "
        f"{format_hours(sum_column(found, 'duration_ns'))}, while {true:.1f} % of the SMs had a "
        f"warp. That time took {write_share(run, cost)}.",
        show_stretches(
            found,
            [
                *describe_devices(found),
                write_bounds(found),
                "what the GPU draws when idle is not in the recording, so no gain is estimated"
                if parked is None
                else f"an idle GPU draws {parked['power_w']:.0f} W here",
            ],
        ),
        Advice(
            fix="larger batches, or several processes on one GPU (MPS, MIG); a trace shows which "
            "small kernel runs",
            verify="sightline stats energy_of_states AFTER: no 'busy but idle'",
            cause="a few SMs at a time have work",
            sources=("NVIDIA DCGM User Guide: SM Activity",),
        ),
        price=price_energy(
            run,
            cost,
            None if parked is None else parked["low_w"] * float(found.select(free_s).item() or 0.0),
        ),
        method=None
        if parked is None
        else "bound: the idle power of the time that the same SM time leaves free on a full GPU",
        confidence="medium",
    )
