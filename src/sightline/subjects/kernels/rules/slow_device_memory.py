"""Every large pass over memory runs far below the rate of this GPU's memory.

Symptom
    Additions, activations and normalizations that take twenty times what their bytes would, while
    small tensors, which stay in a cache, are as quick as ever.

Why it hurts
    Nothing in the program can make up for it: what a kernel reads does not come from the GPU's
    memory, or that memory runs at a fraction of its clock.

Evidence
    Operators that compute next to nothing for each byte, with the bytes of their shapes, against
    the memory's rate as the recording or the datasheet has it. The gain is a replay in which their
    kernels take what their bytes take at that rate: an upper bound. A recording cannot tell which
    of the causes it is.

Threshold
    Of passes over 16 MiB and more (ours: no L2 of a GPU for games or laptops holds both sides of
    one), even the quickest quarter stays under 20 % of the memory's rate (ours: of 71 public
    traces with such passes none is under 35 %, and simple passes reach 80 to 95 %), at least five
    of them, and a tenth of the kernel time.

Fix
    Look at the memory that is used against the memory that there is, and at the clocks
    (nvidia-smi), while it runs. Where it is full, Windows moves tensors to the host's memory
    instead of refusing them: use a smaller batch, free what other models and notebooks hold, or
    forbid it in NVIDIA's control panel (CUDA - Sysmem Fallback Policy). A laptop on battery holds
    the memory's clock down.

False positives
    Operators whose shapes were recorded and whose tensors are views of few elements (expanded):
    they move less than their shapes say, and are quicker for it, not slower.

References
    NVIDIA, "System Memory Fallback for Stable Diffusion" (answer 5490, 2023); NVML API reference,
    clock event reasons.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_pct
from sightline.roofline.operator_roofs import place_operators
from sightline.subjects.kernels.rules._operators import list_kernels_of
from sightline.subjects.kernels.rules._shared import find_shorter_kernels, list_kernels

RULE = Rule("slow-device-memory", "The GPU's memory is far slower than it should be")
_LARGE_BYTES = 16 << 20
_QUICKEST = 0.75
_SLOW = 0.2
_LEAST = 5
_LEAST_SHARE = 0.1


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or not run.rows("host_ops"):
        return
    passes = place_operators(run).filter(
        pl.col("flop").is_null(),
        pl.col("peak_bytes_per_s").is_not_null(),
        pl.col("moved_bytes") >= _LARGE_BYTES,
    )
    passes = passes.with_columns(rate=1e9 * pl.col("moved_bytes") / pl.col("kernel_ns"))
    device = ["rank", "device_id"]
    slow = (
        passes.group_by(device)
        .agg(
            quick=(pl.col("rate") / pl.col("peak_bytes_per_s")).quantile(_QUICKEST),
            calls=pl.len(),
            ns=pl.col("kernel_ns").sum(),
        )
        .join(list_kernels(run).group_by(device).agg(whole=pl.col("length").sum()), on=device)
        .filter(
            pl.col("quick") < _SLOW,
            pl.col("calls") >= _LEAST,
            pl.col("ns") >= _LEAST_SHARE * pl.col("whole"),
        )
    )
    passes = passes.join(slow.select(device), on=device, how="semi")
    if passes.is_empty():
        return
    left = passes.select(owner="host_op_id", factor=pl.col("rate") / pl.col("peak_bytes_per_s"))
    row = passes.sort("moved_bytes", "host_op_id").row(-1, named=True)
    found = find_shorter_kernels(
        run,
        RULE,
        list_kernels_of(run, left),
        f"Passes over large tensors run at {format_pct(100 * _measure_rate(passes))} of what the "
        "memory of this GPU can do, and take {share} of the window more than at its rate.",
        cause="the tensors lie in the host's memory (more is used than the GPU has), or its memory "
        "runs at a low clock: the recording does not say which",
        fix="look at the memory in use and at the clocks while it runs (nvidia-smi -q -d "
        "MEMORY,CLOCK,PERFORMANCE); where the memory is full, use a smaller batch, free what other "
        "models and programs hold, and forbid Windows to move tensors to the host's memory (CUDA - "
        "Sysmem Fallback Policy); a laptop needs mains power",
        sources=("NVIDIA, System Memory Fallback (answer 5490)",),
        extra=[
            f"the largest: {row['name']} moves {format_bytes(row['moved_bytes'])} at "
            f"{row['rate'] / 1e9:.1f} GB/s of {row['peak_bytes_per_s'] / 1e9:.0f}"
        ],
        confidence="medium",
        is_bound=True,
    )
    if found:
        yield found


def _measure_rate(passes: pl.DataFrame) -> float:
    """The part of the memory's rate that all of them together reach."""
    least = (pl.col("moved_bytes") / pl.col("peak_bytes_per_s")).sum() * 1e9
    return float(passes.select(least / pl.col("kernel_ns").sum()).item())
