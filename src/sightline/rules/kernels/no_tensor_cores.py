"""Matrix products run in fp32 on the vector units, on a device that has tensor cores.

Symptom
    GEMM kernels whose names say single precision without tensor cores (sgemm, simt).

Why it hurts
    On A100 TF32 has eight times the peak of fp32 (156 against 19.5 TFLOP/s), on H100 seven.

Evidence
    Kernel names: `sgemm` or `simt` and none of tf32, tensorop, s1688, s16816, hmma, mma. The device
    is known to be of compute capability 8.0 or later by its name. The gain is a replay in which
    these kernels take the ratio of the two peaks: an upper bound, since small products never
    reach a peak.

Threshold
    What could be saved is over 5 % of the window (TraceLens agent, 2026-08).

Fix
    torch.set_float32_matmul_precision("high") for TF32, or bf16 by torch.autocast; sizes that are
    multiples of 8 (fp16, bf16) or 4 (TF32).

False positives
    Programs that need fp32's 24 bits, such as some solvers.

References
    NVIDIA A100 and H100 datasheets (dense rates); NVIDIA, Matrix Multiplication Background User's
    Guide (alignment); PyTorch, torch.set_float32_matmul_precision.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.finding import abstain
from sightline.rules.kernels._shared import find_shorter_kernels, list_kernels

RULE = Rule("no-tensor-cores", "Matrix products run without tensor cores")
_PLAIN = r"(?i)sgemm|simt"
_TENSOR = r"(?i)tf32|tensorop|s1688|s16816|hmma|mma_"
# TF32 over fp32 peak, dense, TFLOP/s as the datasheets print them.
_RATIO = {
    "A100": 156 / 19.5,
    "A30": 82 / 10.3,
    "H100 PCIe": 378 / 51.2,
    "H100": 494.7 / 66.9,
    "H200": 494.7 / 66.9,
}


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices; abstains where the device is not known."""
    if not run.rows("device_ops"):
        return
    plain = list_kernels(run, _PLAIN).filter(~pl.col("name").str.contains(_TENSOR))
    if plain.is_empty():
        return
    names = run.table("devices").select("rank", "device_id", device="name")
    known = plain.join(names, on=["rank", "device_id"], how="left").with_columns(
        ratio=pl.col("device").map_elements(_ratio, return_dtype=pl.Float64)
    )
    if known.get_column("ratio").null_count() == known.height:
        yield abstain(
            RULE,
            "fp32 matrix kernels ran, but the device's tensor-core rate is not known: the "
            "recording or the table has no such device",
        )
        return
    found = find_shorter_kernels(
        run,
        RULE,
        known.drop_nulls("ratio").with_columns(factor=1 / pl.col("ratio")),
        "{share} of the window could go if fp32 matrix products ran on the tensor cores at their "
        "peak.",
        cause="fp32 matrix products are not allowed to use TF32",
        fix='torch.set_float32_matmul_precision("high"), or bf16 with torch.autocast; sizes that '
        "are multiples of 8",
        sources=("NVIDIA A100 and H100 datasheets, dense rates",),
        confidence="low",
    )
    if found:
        yield found


def _ratio(device: str | None) -> float | None:
    """How many times faster TF32 is than fp32 on a device, or None where that is not known."""
    return next((r for name, r in _RATIO.items() if device and name in device), None)
