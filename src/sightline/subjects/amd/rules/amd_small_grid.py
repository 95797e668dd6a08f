"""The grid has fewer work-groups than the GPU has compute units.

Symptom
    Compute units get no work-group at all.

Why it hurts
    They idle for the whole kernel.

Evidence
    Work-groups of the grid, compute units of the GPU (`sightline stats launch_shape`).

Threshold
    Any idle compute unit (Nsight Compute 2024.1, rule LaunchConfiguration); kernels at 80 % of a
    limit are left out. Estimate: the share of idle units, not more than what is left to the speed
    of light; global.

Fix
    Smaller tiles or split the reduction (split-K, stream-K), so that there is a work-group for each
    unit; run independent kernels side by side on several streams.

False positives
    Kernels that are short by nature, beside which others run.

References
    ROCm, "HIP performance guidelines", "Parallel execution".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_several
from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_amd_kernels
from sightline.roofline.amd_kernels import AmdKernel

RULE = Rule("amd-small-grid", "Fewer work-groups than compute units")


def _hit(case: Case, _: AmdKernel) -> Hit | None:
    groups, units = case.facts.row["grid_x"], case.facts.device.get("sm_count")
    if not groups or not units or groups >= units or case.at_limit:
        return None
    evidence = f"{format_several(groups, 'work-group')} for {format_several(units, 'compute unit')}"
    return Hit(case, min(100 * (1 - groups / units), case.headroom), None, evidence)


check = judge_amd_kernels(
    RULE,
    _hit,
    fix="smaller tiles, or split the reduction (split-K), so that each compute unit has work",
    verify="sightline stats launch_shape AFTER: idle_sms_pct 0",
)
