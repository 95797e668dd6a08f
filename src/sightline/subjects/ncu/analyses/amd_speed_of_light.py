"""AMD's speed of light: every figure of each kernel that rocprof-compute measured, and its peak."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, pct, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.roofline.amd_kernels import load_amd_kernels

ANALYSIS = Analysis(
    "amd_speed_of_light",
    "What do AMD's hardware counters say of each kernel, and of what peak is that?",
    (
        number("kernel_id", "the execution", required=True),
        text("name", "kernel"),
        text("figure", "as rocprof-compute calls it", required=True),
        real("value", "in the unit"),
        text("unit", "unit of value and peak", required=True),
        real("peak", "the most that the GPU can do; null where the machine is not known"),
        pct("pct", "value, % of the peak"),
    ),
    needs=("profiled_kernels", "kernel_metrics"),
    notes=(
        "By rocprof-compute's formulas, of those counters that were collected. Where its peaks "
        "contradict the GPU's data sheet, the data sheet's are taken (docs/accuracy.md).",
        "VGPRs, SGPRs, LDS and wave slots limit waves: cycles in which a work-group could not "
        "start for lack of them.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per kernel and figure."""
    rows = [
        {
            "kernel_id": kernel.facts.row["kernel_id"],
            "name": kernel.facts.row["name"],
            "figure": figure,
            "value": light.value,
            "unit": light.unit,
            "peak": light.peak,
            "pct": light.pct,
        }
        for kernel in load_amd_kernels(run)
        for figure, light in kernel.light.items()
    ]
    return pl.DataFrame(rows, schema={c.name: c.dtype for c in ANALYSIS.columns})
