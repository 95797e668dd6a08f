"""What the first finding about a profiled kernel says besides: its algorithm, a faster version."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from sightline.diagnosis.algorithms import add_algorithm
from sightline.diagnosis.versions import add_version, measure_launches
from sightline.timeline.world import read_world


def advise_kernels(run: Run, found: Sequence[Finding]) -> list[Finding]:
    """The findings, in order; the first about each kernel has what is known of it by its name."""
    if not run.rows("profiled_kernels"):
        return list(found)
    vendor, times = read_world(run).vendor, measure_launches(run)
    seen: set[str] = set()
    told = []
    for finding in found:
        kernel = str(finding.where.get("kernel"))
        if "estimate_pct" in finding.where and not finding.abstained and kernel not in seen:
            seen.add(kernel)
            finding = add_version(add_algorithm(finding, kernel, vendor), kernel, times)
        told.append(finding)
    return told
