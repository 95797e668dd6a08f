"""A kernel spends its time on setting up random number generators.

Symptom
    A kernel such as `setup_kernel(curandState *)` that takes longer than the one that draws.

Why it hurts
    `curand_init` with a sequence number skips ahead in the generator's sequence, by matrix products
    in local memory for each thread. The states are all that it makes.

Evidence
    The kernel's name and signature, or its lines where curand_kernel.h has most samples; and what
    it keeps busy. The time that remains is that of device memory, which holds the states; of a
    kernel that draws as well, as its lines tell, that of the pipes that setting up has no use for.

Threshold
    None of its own: what costs under 5 % of the profiled time is a note.

Fix
    A counter-based generator (Philox), sequence 0 with a seed for each thread, or fewer threads.

False positives
    Kernels of that name that do something else, too.

References
    cuRAND Library, Programming Guide: Device API Overview, Performance Notes.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import DRAM, WAITS, Case, Limit
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.timeline.generators import FIX, sets_up_generators

RULE = Rule(
    "ncu-generators",
    "Setting up random number generators",
    explains=(
        *WAITS,
        "ncu-occupancy-limit",
        "ncu-occupancy-achieved",
        "ncu-divergence",
        "ncu-local-memory",
        "ncu-uncoalesced-global",
        "ncu-access-pattern",
        "ncu-l1-limit",
    ),
)
_TIME = "gpu__time_duration.sum"
_HEADER = "curand_kernel.h"
_OF_DRAWING = {pipe: f"the {pipe} pipe" for pipe in ("fp64", "fp16", "xu", "tensor")}


def _hit(case: Case) -> Hit | None:
    name = pl.Series([case.facts.row["name"] or ""])
    by_line = case.hot_line is not None and case.hot_line.file.endswith(_HEADER)
    if not by_line and not pl.select(sets_up_generators(pl.lit(name))).item():
        return None
    busiest = case.busiest
    # Integers and loads are the set-up's: what else the kernel keeps busy is its own work.
    others = {DRAM: DRAM} | ({} if not by_line else _OF_DRAWING)
    needed = [
        Limit(name, use) for unit, name in others.items() if (use := case.use(unit)) is not None
    ]
    evidence = "the kernel sets up random generators' states, which is not the program's own work"
    if busiest is not None:
        evidence += f"; its busiest unit is {busiest.unit}, at {format_pct(busiest.pct)} of peak"
    return Hit(
        case,
        100.0,
        None,
        evidence,
        next_limit=max(needed, key=lambda limit: limit.pct, default=None),
        relieves_limit=True,
    )


check = judge_kernels(
    RULE,
    _hit,
    metrics=(_TIME, "launch__grid_size", "launch__block_size"),
    record="--set full",
    fix=FIX,
    verify="sightline stats speed_of_light AFTER: a shorter duration of this kernel",
)
