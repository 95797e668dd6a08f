"""How near each profiled kernel comes to what the device can do, in compute and in memory."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import duration, number, pct, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.roofline.amd_kernels import AmdKernel, load_amd_kernels
from sightline.roofline.facts import load_facts
from sightline.roofline.placement import BALANCED_PCT, BUSY_PCT, LATENCY_PCT, MEMORY_PCT, SM_PCT

_DRAM = (
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
)
_L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
_L1 = "l1tex__throughput.avg.pct_of_peak_sustained_active"
_WAVES = "launch__waves_per_multiprocessor"

ANALYSIS = Analysis(
    "speed_of_light",
    "How close does each profiled kernel come to the device's limits?",
    (
        number("kernel_id", "the execution", required=True),
        text("name", "kernel"),
        duration("duration_ns", "duration under the profiler, not that of the program"),
        pct("sm_pct", "throughput of the SM, % of its peak: the highest of its parts"),
        pct("memory_pct", "throughput of the memory system, % of its peak"),
        pct("dram_pct", "device memory, % of peak"),
        pct("l2_pct", "L2 cache, % of peak"),
        pct("l1_pct", "L1 cache, % of peak while the SM is active"),
        text("sm_part", "the part of the SM that is busiest"),
        text("memory_part", "the part of the memory system that is busiest"),
        real("waves", "blocks that were launched over those that fit the device at once", "waves"),
        text("verdict", "compute, memory, balanced, latency or small_grid"),
    ),
    needs=("profiled_kernels", "kernel_metrics"),
    notes=(
        "compute or memory: that throughput is at least 60 % of peak, and 80 % or 10 points above "
        "the other; balanced: neither is; latency: both under 60 %; small_grid: that, and less "
        "than one wave (thresholds of Nsight Compute 2024.1, rule SOLBottleneck).",
        "Of AMD's kernels: the busiest of VALU, MFMA, SALU, VMEM and branches; of LDS, L1, L2 and "
        "device memory. All figures: amd_speed_of_light.",
    ),
    worst="duration_ns",
)


def run(run: Run) -> pl.DataFrame:
    """One row per profiled kernel."""
    parts = _busiest(run)
    rows = []
    for f in load_facts(run, (SM_PCT, MEMORY_PCT, *_DRAM, _L2, _L1, _WAVES)):
        if f.is_amd:
            continue
        sm, memory, waves = f.get(SM_PCT), f.get(MEMORY_PCT), f.get(_WAVES)
        kernel = f.row["kernel_id"]
        rows.append(
            {
                "kernel_id": kernel,
                "name": f.row["name"],
                "duration_ns": f.row["duration_ns"],
                "sm_pct": sm,
                "memory_pct": memory,
                "dram_pct": f.get(*_DRAM),
                "l2_pct": f.get(_L2),
                "l1_pct": f.get(_L1),
                "sm_part": parts.get((kernel, f"breakdown:{SM_PCT}")),
                "memory_part": parts.get((kernel, f"breakdown:{MEMORY_PCT}")),
                "waves": waves,
                "verdict": verdict(sm, memory, waves),
            }
        )
    rows += [_describe_amd(kernel) for kernel in load_amd_kernels(run)]
    schema = {c.name: c.dtype for c in ANALYSIS.columns}
    return pl.DataFrame(rows, schema=schema).sort("kernel_id", maintain_order=True)


def _describe_amd(kernel: AmdKernel) -> dict[str, object]:
    row = kernel.facts.row
    (sm_part, sm), (memory_part, memory) = (
        part or (None, None) for part in (kernel.compute, kernel.memory)
    )
    units, fit = kernel.facts.device.get("sm_count"), kernel.occupancy
    places = units * fit.active_blocks if units and fit else 0
    waves = row["grid_x"] / places if places and row["grid_x"] else None
    return {
        "kernel_id": row["kernel_id"],
        "name": row["name"],
        "duration_ns": row["duration_ns"],
        "sm_pct": sm,
        "memory_pct": memory,
        "dram_pct": kernel.fabric_pct,
        "l2_pct": kernel.pct("L2 Cache BW"),
        "l1_pct": kernel.pct("vL1D Cache BW"),
        "sm_part": sm_part,
        "memory_part": memory_part,
        "waves": waves,
        "verdict": verdict(sm, memory, waves),
    }


def verdict(sm: float | None, memory: float | None, waves: float | None) -> str | None:
    """What bounds a kernel with these throughputs; None where they were not recorded."""
    if sm is None or memory is None:
        return None
    if max(sm, memory) < LATENCY_PCT:
        return "small_grid" if waves is not None and waves < 1 else "latency"
    if max(sm, memory) < BUSY_PCT and abs(sm - memory) < BALANCED_PCT:
        return "balanced"
    return "compute" if sm >= memory else "memory"


def _busiest(run: Run) -> dict[tuple[int, str], str]:
    """For each kernel and throughput, the part whose value is highest; of equal ones by name.

    The profiler lists the parts of a throughput in a metric called breakdown:<throughput>.
    """
    metrics = run.scan("kernel_metrics")
    listed = (
        metrics.filter(pl.col("metric").is_in([f"breakdown:{m}" for m in (SM_PCT, MEMORY_PCT)]))
        .select("kernel_id", whole="metric", metric=pl.col("text").str.split(","))
        .explode("metric", empty_as_null=False)
    )
    top = (
        listed.join(
            metrics.filter(pl.col("value").is_not_null() & pl.col("instance_id").is_null()),
            on=["kernel_id", "metric"],
        )
        .sort("value", "metric", descending=[True, False])
        .group_by("kernel_id", "whole", maintain_order=True)
        .agg(pl.col("metric").first())
        .collect()
    )
    return {(k, whole): metric.split(".")[0] for k, whole, metric in top.iter_rows()}
