"""The kernel uses neither compute nor memory well: it waits for latency.

Symptom
    The busiest unit and the busiest part of memory are both under 60 % of peak, although the grid
    has a work-group for each compute unit.

Why it hurts
    There is time in which all waves wait and none is ready to run.

Evidence
    The busiest parts of either side (`sightline stats amd_speed_of_light`).

Threshold
    Both under 60 % of peak (Nsight Compute 2024.1, rule SOLBottleneck), at least one work-group for
    each compute unit. Estimate: what is left up to the limit, global: an upper bound that no
    kernel reaches.

Fix
    More waves on each compute unit, or more independent loads and arithmetic in each, hide
    latency. Where registers and LDS already let 80 % of the waves fit (Nsight Compute 2024.1, rule
    TheoreticalOccupancy), only the latter.

False positives
    Kernels of a few microseconds: start and end dominate.

References
    ROCm Compute Profiler, "System Speed-of-Light".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.kernel_cases import load_amd_cases
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import THEORETICAL_PCT, make_findings
from sightline.roofline.placement import LATENCY_PCT

RULE = Rule("amd-latency", "Latency bound")

_MORE_WAVES = (
    "more waves on each compute unit (fewer registers, less LDS), or more independent loads and "
    "arithmetic in each"
)
# Registers and LDS keep no wave away: what is missing is work.
_MORE_EACH = (
    "keep more loads in flight: several elements for each work-item (unrolled, 16 bytes a load), "
    "and more data in one launch; registers and LDS already let nearly all waves fit"
)


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    every = load_amd_cases(run, "VALU Utilization", "L2-Fabric Read BW")
    hits = [
        Hit(case, case.headroom, None, f"{_say(kernel.compute)}, {_say(kernel.memory)}")
        for case, kernel in every
        if kernel.compute and kernel.memory and _fills(case) and (case.light or 0) < LATENCY_PCT
    ]
    full = {
        case.kernel_id
        for case, kernel in every
        if kernel.occupancy is not None and kernel.occupancy.pct >= THEORETICAL_PCT
    }
    yield from make_findings(
        RULE,
        hits,
        [case for case, _ in every],
        lambda h: f"{h.evidence}: the kernel is latency bound.",
        lambda h: _MORE_EACH if h.case.kernel_id in full else _MORE_WAVES,
        "sightline stats amd_speed_of_light AFTER: a part over 60 %",
    )


def _fills(case: Case) -> bool:
    """Whether each compute unit has a work-group."""
    groups, units = case.facts.row["grid_x"], case.facts.device.get("sm_count")
    return bool(groups and units and groups >= units)


def _say(part: tuple[str, float] | None) -> str:
    return "" if part is None else f"{part[0]} {format_pct(part[1])} of peak"
