"""The last, partial wave of blocks leaves much of the device empty.

Symptom
    The grid is a little more than a whole number of waves.

Why it hurts
    The last wave takes as long as the others and fills only part of the device.

Evidence
    Waves and the blocks of the last one (`sightline stats launch_shape`).

Threshold
    At least one whole wave, a partial last one, and 1 / (whole waves + 1) ≥ 20 % (Nsight Compute
    2024.1, rule LaunchConfiguration; its condition on the achieved occupancy is left out, as that
    is a mean over SMs that have blocks). Estimate, global: what the last wave leaves empty, as a
    share of all waves; Nsight Compute's is the whole last wave, though its blocks have to run
    somewhere. Where it was measured, not more than the warps that were missing: those that fit an
    SM, all of the time, less those that were there. A block of the last wave may have to itself
    what several share in a full one, and takes less time then: so it is never more than what is
    left to the speed of light, which counts the work of all.

Fix
    Choose grid or block size so that the grid is a whole number of waves, or use a persistent
    kernel whose blocks fetch their work.

False positives
    Blocks of very different length: then waves are not in step and the tail is hidden.

References
    Nsight Compute, Kernel Profiling Guide, "Launch Statistics".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_several
from sightline.diagnosis.kernel_bounds import WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.launch import ACHIEVED, METRICS, count_blocks, read_limits_and_launch
from sightline.roofline.occupancy import compute_occupancy

RULE = Rule(
    "ncu-tail-effect", "Tail effect", explains=("ncu-occupancy-achieved", "ncu-imbalance", *WAITS)
)
TAIL_SHARE = 0.2
LEAST_PCT = 2.0  # ours: below it nothing is to be won
_ACTIVE, _ELAPSED = "sm__cycles_active.avg", "sm__cycles_elapsed.max"


def _hit(case: Case) -> Hit | None:
    known, blocks, sms = (
        read_limits_and_launch(case.facts),
        count_blocks(case.facts),
        case.facts.device.get("sm_count"),
    )
    if known is None or not blocks or not sms:
        return None
    fit = compute_occupancy(*known)
    wave = max(1, sms * fit.active_blocks)
    whole, tail = divmod(blocks, wave)
    if not tail or whole < 1 or 1 / (whole + 1) < TAIL_SHARE:
        return None
    gain = min(
        100 * (1 - tail / wave) / (whole + 1), case.headroom, _find_missing_warps(case, fit.pct)
    )
    if gain < LEAST_PCT:
        return None
    return Hit(
        case,
        gain,
        None,
        f"{format_several(whole, 'full wave')} of {format_several(wave, 'block')} and a partial "
        f"wave of {format_several(tail, 'block')}",
    )


def _find_missing_warps(case: Case, allowed_pct: float) -> float:
    """Of the warps that fit, those that were not there, in the mean over SMs and time, %."""
    achieved = case.get(ACHIEVED)
    if achieved is None or not allowed_pct:
        return 100.0
    active, elapsed = case.get(_ACTIVE), case.get(_ELAPSED)
    busy = active / elapsed if active is not None and elapsed else 1.0
    return max(0.0, 100 * (1 - achieved / allowed_pct * busy))


check = judge_kernels(
    RULE,
    _hit,
    metrics=(*METRICS, ACHIEVED, _ACTIVE, _ELAPSED),
    record="--section LaunchStats --section Occupancy",
    summary="{} (tail effect).",
    fix="choose a grid or block size that fills the last wave, or use a persistent kernel",
    verify="sightline stats launch_shape AFTER: tail_idle_pct near 0",
    needs_sm_count=True,
    is_callers=True,
)
