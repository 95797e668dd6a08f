"""How many warps an SM could hold of each profiled kernel, how many it held, and what limits it."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.columns import number, pct, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.roofline.amd_kernels import AmdKernel, load_amd_kernels
from sightline.roofline.facts import load_facts
from sightline.roofline.launch import METRICS, read_limits_and_launch
from sightline.roofline.occupancy import LIMITERS, Occupancy, compute_occupancy

_ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
_REPORTED = "sm__maximum_warps_per_active_cycle_pct"
_CLUSTER = "launch__occupancy_cluster_pct"

ANALYSIS = Analysis(
    "occupancy",
    "How full could the SMs be, how full were they, and what limits it?",
    (
        number("kernel_id", "the execution", required=True),
        text("name", "kernel"),
        pct("theoretical_pct", "warps that fit an SM, % of those it can hold; computed"),
        pct("achieved_pct", "warps that were resident on average while the SM was active"),
        text("limiter", "what is used up first; several where they are used up together"),
        number("active_warps", "warps that fit an SM", "warps"),
        number("max_warps", "warps that an SM can hold", "warps"),
        number("active_blocks", "blocks that fit an SM", "blocks"),
        *(
            number(f"limit_{n}", f"blocks that fit by {n.replace('_mem', ' memory')}", "blocks")
            for n in LIMITERS
        ),
        number(
            "limit_scalar_registers", "work-groups that fit by AMD's scalar registers", "blocks"
        ),
        pct("reported_pct", "the theoretical occupancy that the profiler reports"),
        real("cluster_pct", "occupancy by clusters, as the profiler reports it", "%"),
    ),
    needs=("profiled_kernels", "kernel_metrics"),
    notes=(
        "Computed from the launch and the device's limits, not taken from the profiler; "
        "reported_pct is next to it. What neighboring settings give: occupancy_what_if.",
        "Of AMD's kernels an SM is a compute unit, a warp a wave, a block a work-group; shared "
        "memory is LDS.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per profiled kernel."""
    rows = []
    for f in load_facts(run, (*METRICS, _ACHIEVED, _REPORTED, _CLUSTER)):
        if f.is_amd:
            continue
        row: dict[str, Any] = {
            "kernel_id": f.row["kernel_id"],
            "name": f.row["name"],
            "achieved_pct": f.get(_ACHIEVED),
            "reported_pct": f.get(_REPORTED),
            "cluster_pct": f.get(_CLUSTER),
        }
        known = read_limits_and_launch(f)
        if known is not None:
            row |= _describe(compute_occupancy(*known))
        rows.append(row)
    rows += [_describe_amd(kernel) for kernel in load_amd_kernels(run)]
    schema = {c.name: c.dtype for c in ANALYSIS.columns}
    return pl.DataFrame(rows, schema=schema).sort("kernel_id", maintain_order=True)


def _describe(result: Occupancy) -> dict[str, Any]:
    return {
        "theoretical_pct": result.pct,
        "limiter": ", ".join(result.limiters),
        "active_warps": result.active_warps,
        "max_warps": result.max_warps,
        "active_blocks": result.active_blocks,
        **{f"limit_{n}": blocks for n, blocks in result.blocks.items()},
    }


def _describe_amd(kernel: AmdKernel) -> dict[str, Any]:
    row = {
        "kernel_id": kernel.facts.row["kernel_id"],
        "name": kernel.facts.row["name"],
        "achieved_pct": kernel.pct("Wavefront Occupancy"),
    }
    return row | (_describe(kernel.occupancy) if kernel.occupancy else {})
