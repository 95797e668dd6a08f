"""Matrix products and convolutions run in fp32 on the vector units of a device with tensor cores.

Symptom
    GEMM and convolution kernels whose names say single precision without tensor cores.

Why it hurts
    On A100 TF32 has eight times the peak of fp32 (156 against 19.5 TFLOP/s), on H100 seven. V100
    and T4 have no TF32, but eight times the fp32 peak in fp16.

Evidence
    Kernel names: cuBLAS' `sgemm`, CUTLASS' `simt`, cuDNN's `scudnn`, `ffma`, and its engines for
    `float`; and none of the names of tensor-core instructions. The device's rates are those of its
    entry in the table of GPUs (docs/roofline.md). The gain is a replay in which these kernels take
    the ratio of the two peaks, but no less than reading and writing products of recorded shapes
    takes: an upper bound, since small products never reach a peak.

Threshold
    What could be saved is over 5 % of the window (TraceLens agent, 2026-08).

Fix
    torch.set_float32_matmul_precision("high") for TF32, or bf16 by torch.autocast; sizes that are
    multiples of 8 (fp16, bf16) or 4 (TF32). Without TF32: fp16 by torch.autocast.

False positives
    Programs that need fp32's 24 bits, such as some solvers.

References
    NVIDIA's datasheets (dense rates: docs/roofline.md names each); NVIDIA, Matrix Multiplication
    Background User's Guide (alignment); PyTorch, torch.set_float32_matmul_precision.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import abstain
from sightline.roofline.hardware import find_gpu
from sightline.subjects.kernels.rules._operators import add_owners, select_calls
from sightline.subjects.kernels.rules._shared import find_shorter_kernels, list_kernels

RULE = Rule("no-tensor-cores", "Matrix products without tensor cores")
# cuDNN's own kernels name the type that they compute in: scudnn, and engine<float, ...>.
_PLAIN = r"(?i)sgemm|simt|scudnn|_ffma_|(?:dgrad|wgrad|fprop)\w*engine<float"
_TENSOR = r"(?i)tf32|tensorop|[hsi]\d*(?:884|1688|16816|16832)|hmma|imma|[wg]mma_|\bmma_"
# Less is no ratio: GPUs for games have the same rate for both.
_LEAST_RATIO = 1.5
_NEUTRAL = "use 16-bit inputs, or TF32 where the GPU has it; sizes that are multiples of 8"
_NATIVE = (
    "let the library use them: cublasGemmEx with CUBLAS_COMPUTE_32F_FAST_TF32 or bf16 inputs, "
    "cudnnSetConvolutionMathType; sizes that are multiples of 8"
)
_JAX = (
    'jax.default_matmul_precision("tensorfloat32"), or bf16 inputs; sizes that are multiples of 8'
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices; abstains where the device is not known."""
    if not run.rows("device_ops"):
        return
    plain = list_kernels(run, _PLAIN).filter(~pl.col("name").str.contains(_TENSOR))
    if plain.is_empty():
        return
    known = plain.join(_list_ratios(run), on=["rank", "device_id"], how="left")
    if known.get_column("ratio").null_count() == known.height:
        yield abstain(
            RULE,
            "fp32 matrix kernels ran, but the device's tensor-core rate is not known: the "
            "recording or the table has no such device",
        )
        return
    known = known.drop_nulls("ratio").filter(pl.col("ratio") >= _LEAST_RATIO)
    if known.is_empty():
        return
    has_tf32 = bool(known.get_column("tf32").all())
    limited = _limit_by_memory(run, known.with_columns(factor=1 / pl.col("ratio")))
    shaped = limited.filter(pl.col("shaped")).get_column("length").sum()
    found = find_shorter_kernels(
        run,
        RULE,
        limited.drop("shaped"),
        "Matrix products in fp32 take {share} of the window more than on the tensor cores at peak.",
        cause="fp32 matrix products are not allowed to use TF32"
        if has_tf32
        else "this GPU has no TF32: its tensor cores want fp16",
        fix=choose_fix(run, _NEUTRAL, pytorch=_advise(has_tf32), native=_NATIVE, jax=_JAX),
        sources=("NVIDIA's datasheets, dense rates: docs/roofline.md",),
        # Of products of unknown shape nothing says that tensor cores could be fed.
        confidence="medium" if 2 * shaped > limited.get_column("length").sum() else "low",
        is_bound=True,
    )
    if found:
        yield found


def _list_ratios(run: Run) -> pl.DataFrame:
    """Per device how many times faster its tensor cores are than fp32, and whether in TF32."""
    rows = []
    devices = run.table("devices").select("rank", "device_id", "name", "memory_bytes")
    for rank, device, name, memory in devices.iter_rows():
        gpu = find_gpu(name, memory)
        peaks = gpu.peaks() if gpu is not None else {}
        tensor = peaks.get("tf32_tensor") or peaks.get("fp16_tensor")
        ratio = tensor / peaks["fp32"] if tensor and "fp32" in peaks else None
        rows.append((rank, device, ratio, "tf32_tensor" in peaks))
    schema = {"rank": pl.Int64, "device_id": pl.Int64, "ratio": pl.Float64, "tf32": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _limit_by_memory(run: Run, plain: pl.DataFrame) -> pl.DataFrame:
    """The factors, none below what reading and writing a product of known shape takes.

    `shaped`: whether the shape is known.
    """
    memory = 1e9 * pl.col("moved_bytes") / pl.col("peak_bytes_per_s")
    least = select_calls(run, plain).select(owner="host_op_id", least=memory / pl.col("kernel_ns"))
    limited = add_owners(run, plain).join(least, on="owner", how="left", maintain_order="left")
    return limited.with_columns(
        factor=pl.max_horizontal("factor", pl.col("least").clip(upper_bound=1.0)),
        shaped=pl.col("least").is_not_null(),
    ).drop("owner", "least")


def _advise(has_tf32: bool) -> str:
    """For PyTorch: TF32 where the device has it, else mixed precision."""
    if has_tf32:
        return (
            'torch.set_float32_matmul_precision("high"), or bf16 with torch.autocast; sizes that '
            "are multiples of 8"
        )
    return (
        "mixed precision: torch.autocast(device_type='cuda', dtype=torch.float16) with a "
        "GradScaler; sizes that are multiples of 8"
    )
