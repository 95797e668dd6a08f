"""The kernel uses neither compute nor memory well: it waits for latency.

Symptom
    Both throughputs are under 60 % of peak although the grid fills the device.

Why it hurts
    There is time in which all warps wait and none is ready to run.

Evidence
    Speed of light of both sides (`sightline stats speed_of_light`); the reason is in ncu-stall.

Threshold
    SM and memory throughput both under 60 %, at least one wave (Nsight Compute 2024.1, rule
    SOLBottleneck). Estimate: what is left up to the limit, global: an upper bound that no kernel
    reaches.

Fix
    Follow the top stall reason; more warps per SM or more independent work per thread hide
    latency.

False positives
    Kernels of a few microseconds: start and end dominate.

References
    Nsight Compute, Kernel Profiling Guide, "Speed Of Light".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import Hit
from sightline.diagnosis.profiled import load_cases, make_findings
from sightline.roofline.placement import LATENCY_PCT, MEMORY_PCT, SM_PCT

RULE = Rule("ncu-latency", "Latency bound")
_WAVES = "launch__waves_per_multiprocessor"


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    every = load_cases(run, (SM_PCT, MEMORY_PCT), "--section SpeedOfLight")
    waves = {r["kernel_id"]: r["waves"] for r in _shapes(run)} if every else {}
    hits = [
        Hit(
            case,
            case.headroom,
            None,
            f"SM {format_pct(case.get(SM_PCT))}, memory {format_pct(case.get(MEMORY_PCT))} of peak",
        )
        for case in every
        if case.light is not None
        and case.light < LATENCY_PCT
        and (waves.get(case.kernel_id) or 1.0) >= 1
    ]
    yield from make_findings(
        RULE,
        hits,
        every,
        lambda h: f"{h.evidence}: the kernel is latency bound.",
        "check its stall reasons (sightline stats stalls); more warps per SM, or more "
        "independent loads and arithmetic per thread",
        "sightline stats speed_of_light AFTER: a throughput over 60 %",
    )


def _shapes(run: Run) -> list[dict[str, float]]:
    return run.ask("speed_of_light").select("kernel_id", "waves").to_dicts()
