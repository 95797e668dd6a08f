"""Where each profiled kernel stands under the device's compute and memory ceilings."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import duration, number, pct, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.roofline.facts import load_facts
from sightline.roofline.placement import METRICS, PREFIXES, Placement, place_kernel

_FLOP = "FLOP/s"
_BYTES = "bytes/s"
ANALYSIS = Analysis(
    "roofline",
    "How far is each kernel from the roof over it, and which roof is that?",
    (
        number("kernel_id", "the execution", required=True),
        text("name", "kernel"),
        duration("duration_ns", "duration under the profiler"),
        text("precision", "fp64, fp32, ..., bf16_tensor; null where no arithmetic was counted"),
        real("flop", "floating point (or integer matrix) operations", "FLOP"),
        real("flop_per_s", "the same per second", _FLOP),
        text("flop_source", "what counted them"),
        real("peak_flop_per_s", "compute ceiling at the clock of the kernel", _FLOP),
        text("peak_source", "where that is from: counters, device attributes or table"),
        real("datasheet_flop_per_s", "compute ceiling as printed by the vendor", _FLOP),
        real("achievable_flop_per_s", "the best that a benchmark reached on such a device", _FLOP),
        real("dram_bytes_per_s", "traffic of device memory", _BYTES),
        real("dram_peak_bytes_per_s", "memory ceiling at the clock of the kernel", _BYTES),
        text("dram_peak_source", "where that is from"),
        real("datasheet_dram_bytes_per_s", "memory ceiling as printed", _BYTES),
        real("l2_bytes_per_s", "traffic between L2 and L1", _BYTES),
        real("l2_peak_bytes_per_s", "its ceiling", _BYTES),
        real("l1_bytes_per_s", "traffic out of the L1, global and local", _BYTES),
        real("l1_peak_bytes_per_s", "its ceiling", _BYTES),
        real("dram_intensity", "operations per byte of device memory", "FLOP/byte"),
        real("l2_intensity", "operations per byte from L2", "FLOP/byte"),
        real("l1_intensity", "operations per byte from L1", "FLOP/byte"),
        text("roof", "the lowest ceiling at these intensities: compute, dram, l2 or l1"),
        real("roof_flop_per_s", "its height there", _FLOP),
        pct("of_roof_pct", "achieved share of it"),
        pct("of_peak_pct", "achieved share of the compute ceiling"),
        text("bound", "compute, memory, balanced or latency"),
        text("evidence", "why"),
    ),
    needs=("profiled_kernels", "kernel_metrics"),
    notes=(
        "A row per kernel and precision. A kernel that mixes precisions has several rows, whose "
        "shares must not be added.",
        "Ceilings, in order of trust: peak_sustained of the report's counters × measured clock, "
        "attributes of the device, the table (docs/roofline.md).",
    ),
    worst="duration_ns",
)


def run(run: Run) -> pl.DataFrame:
    """One row per profiled kernel and precision."""
    placed = [p for f in load_facts(run, METRICS, PREFIXES) for p in place_kernel(f)]
    return pl.DataFrame(
        [_row(p) for p in placed], schema={c.name: c.dtype for c in ANALYSIS.columns}
    )


def _row(p: Placement) -> dict[str, object]:
    work, dram = p.work, p.memory["dram"]
    roof, height = p.ceiling or (None, None)
    bound, evidence = p.bound
    of_peak = 100 * work.per_s / p.compute.best if work and work.per_s and p.compute.best else None
    return {
        "kernel_id": p.facts.row["kernel_id"],
        "name": p.facts.row["name"],
        "duration_ns": p.facts.row["duration_ns"],
        "precision": work.precision if work else None,
        "flop": work.flop if work else None,
        "flop_per_s": work.per_s if work else None,
        "flop_source": work.source if work else None,
        "peak_flop_per_s": p.compute.best,
        "peak_source": p.compute.source,
        "datasheet_flop_per_s": p.compute.datasheet,
        "achievable_flop_per_s": p.compute.achievable,
        "dram_bytes_per_s": p.bytes_per_s["dram"],
        "dram_peak_bytes_per_s": dram.best,
        "dram_peak_source": dram.source,
        "datasheet_dram_bytes_per_s": dram.datasheet,
        "l2_bytes_per_s": p.bytes_per_s["l2"],
        "l2_peak_bytes_per_s": p.memory["l2"].best,
        "l1_bytes_per_s": p.bytes_per_s["l1"],
        "l1_peak_bytes_per_s": p.memory["l1"].best,
        "dram_intensity": p.intensity("dram"),
        "l2_intensity": p.intensity("l2"),
        "l1_intensity": p.intensity("l1"),
        "roof": roof,
        "roof_flop_per_s": height,
        "of_roof_pct": p.of_ceiling_pct,
        "of_peak_pct": of_peak,
        "bound": bound,
        "evidence": evidence,
    }
