"""What the nearest other register counts, shared memory sizes and block sizes would give."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.roofline.facts import load_facts
from sightline.roofline.launch import METRICS, read_limits_and_launch
from sightline.roofline.occupancy import compute_occupancy, list_neighbors

ANALYSIS = Analysis(
    "occupancy_what_if",
    "Which nearby launch setting would change the theoretical occupancy?",
    (
        number("kernel_id", "the execution", required=True),
        text("name", "kernel"),
        text("setting", "registers, shared_bytes or threads, of a thread, block or block"),
        number("current", "its value now"),
        number("value", "the nearest value that changes the occupancy"),
        pct("theoretical_pct", "theoretical occupancy with it"),
        pct("change_pct", "percentage points more or less than now"),
        text("limiter", "what would be used up first"),
    ),
    needs=("profiled_kernels", "kernel_metrics"),
    notes=(
        "More occupancy helps a kernel that waits for latency; fewer registers may cost spills.",
        "shared_bytes counts what the driver keeps, and assumes the largest carve-out of the L1.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """Up to six rows per profiled kernel."""
    rows = []
    for f in load_facts(run, METRICS):
        known = read_limits_and_launch(f)
        if known is None:
            continue
        limits, launch = known
        own = compute_occupancy(limits, launch).pct
        rows += [
            {
                "kernel_id": f.row["kernel_id"],
                "name": f.row["name"],
                "setting": n.setting,
                "current": getattr(launch, n.setting),
                "value": n.value,
                "theoretical_pct": n.pct,
                "change_pct": n.pct - own,
                "limiter": ", ".join(n.limiters),
            }
            for n in list_neighbors(limits, launch)
        ]
    return pl.DataFrame(rows, schema={c.name: c.dtype for c in ANALYSIS.columns})
