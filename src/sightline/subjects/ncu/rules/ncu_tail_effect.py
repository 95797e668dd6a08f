"""The last, partial wave of blocks leaves much of the device empty.

Symptom
    The grid is a little more than a whole number of waves.

Why it hurts
    The last wave takes as long as the others and fills only part of the device.

Evidence
    Waves and the blocks of the last one (`sightline stats launch_shape`).

Threshold
    At least one whole wave, a partial last one, 1 / (whole waves + 1) ≥ 20 %, and achieved
    occupancy under 80 % of the theoretical, where it was measured (Nsight Compute 2024.1, rule
    LaunchConfiguration). Estimate, global: what the last wave leaves empty, as a share of all
    waves; Nsight Compute's is the whole last wave, though its blocks have to run somewhere. A block
    of the last wave may have to itself what several share in a full one, and takes less time then:
    so it is never more than what is left to the speed of light, which counts the work of all.

Fix
    Choose grid or block size so that the grid is a whole number of waves, or use a persistent
    kernel whose blocks fetch their work.

False positives
    Blocks of very different length: then waves are not in step and the tail is hidden.

References
    Nsight Compute, Kernel Profiling Guide, "Launch Statistics".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.diagnosis.kernel_bounds import Case, Hit
from sightline.diagnosis.profiled import load_cases, make_findings
from sightline.roofline.launch import METRICS, count_blocks, read_limits_and_launch
from sightline.roofline.occupancy import compute_occupancy

RULE = Rule("ncu-tail-effect", "Tail effect", explains=("ncu-occupancy-achieved",))
TAIL_SHARE = 0.2
ACHIEVED_SHARE = 0.8
_ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    every = load_cases(run, (*METRICS, _ACHIEVED), "--section LaunchStats --section Occupancy")
    yield from make_findings(
        RULE,
        [h for c in every if (h := _hit(c)) is not None],
        every,
        lambda h: f"{h.evidence} (tail effect).",
        "choose a grid or block size that fills the last wave, or use a persistent kernel",
        "sightline stats launch_shape AFTER: tail_idle_pct near 0",
    )


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
    achieved = case.get(_ACHIEVED)
    busy = achieved is not None and achieved >= ACHIEVED_SHARE * fit.pct
    if not tail or whole < 1 or 1 / (whole + 1) < TAIL_SHARE or busy:
        return None
    return Hit(
        case,
        min(100 * (1 - tail / wave) / (whole + 1), case.headroom),
        None,
        f"{format_several(whole, 'full wave')} and a partial wave of "
        f"{format_several(tail, 'block')}",
    )
