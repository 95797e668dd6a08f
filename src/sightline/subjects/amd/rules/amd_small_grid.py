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

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count
from sightline.diagnosis.kernel_bounds import Case, Hit
from sightline.diagnosis.profiled import load_amd_cases, make_findings

RULE = Rule("amd-small-grid", "Fewer work-groups than compute units")


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    cases = [case for case, _ in load_amd_cases(run)]
    yield from make_findings(
        RULE,
        [h for case in cases if (h := _hit(case)) is not None],
        cases,
        lambda h: f"{h.evidence}.",
        "smaller tiles, or split the reduction (split-K), so that each compute unit has work",
        "sightline stats launch_shape AFTER: idle_sms_pct 0",
    )


def _hit(case: Case) -> Hit | None:
    groups, units = case.facts.row["grid_x"], case.facts.device.get("sm_count")
    if not groups or not units or groups >= units or case.at_limit:
        return None
    evidence = f"{format_count(groups)} work-groups for {format_count(units)} compute units"
    return Hit(case, min(100 * (1 - groups / units), case.headroom), None, evidence)
