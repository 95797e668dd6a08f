"""Matrix products and convolutions run in fp32 on the vector units of a device with tensor cores.

Symptom
    GEMM and convolution kernels whose names say single precision without tensor cores.

Why it hurts
    On A100 TF32 has eight times the peak of fp32 (156 against 19.5 TFLOP/s), on H100 seven. V100
    and T4 have no TF32, but eight times the fp32 peak in fp16. GPUs for games run TF32 at the rate
    of fp32, and bf16 at twice that.

Evidence
    Kernel names: cuBLAS' `sgemm`, CUTLASS' `simt`, cuDNN's `scudnn`, `ffma`, and its engines for
    `float`; and none of the names of tensor-core instructions. The device's rates are those of its
    entry in the table of GPUs (docs/roofline.md), else of its compute capability. The gain is a
    replay in which these kernels take the ratio of the two peaks, but no less than reading and
    writing products of recorded shapes takes: an upper bound, since small products never reach a
    peak. Of unrecorded shapes that is of low confidence, unless most of the time is in large
    ones: tiles of at least 64 × 64, of which every multiprocessor has one, for 100 µs or more.

Threshold
    What could be saved is over 5 % of the window (TraceLens agent, 2026-08). A note where that is
    less, as behind a host that limits, and the products take a fifth of the kernel time (ours).

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

from sightline.core.algebra.scalars import sum_column
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_pct
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, abstain, build_finding
from sightline.roofline.rates import compare_rates
from sightline.subjects.kernels.rules._launches import list_filled
from sightline.subjects.kernels.rules._operators import add_owners, select_calls
from sightline.subjects.kernels.rules._shared import find_shorter_kernels, list_kernels

RULE = Rule("no-tensor-cores", "Matrix products without tensor cores")
# cuDNN's own kernels name the type that they compute in: scudnn, and engine<float, ...>.
_PLAIN = r"(?i)sgemm|simt|scudnn|_ffma_|(?:dgrad|wgrad|fprop)\w*engine<float"
_TENSOR = r"(?i)tf32|tensorop|[hsi]\d*(?:884|1688|16816|16832)|hmma|imma|[wg]mma_|\bmma_"
# Less is no ratio: GPUs for games have the same rate for TF32.
_LEAST_RATIO = 1.5
# Of the kernel time, for a note where nothing is gained today. Ours: a fifth of it is worth knowing
# before the host is made faster.
NOTED_PCT = 20.0
# Ours: in an eighth of it a multiprocessor still fills its pipeline many times over, and a product
# with fewer rows than 64 gets smaller tiles and waits for its bytes.
_LARGE_NS, _LARGE_TILE = 100_000, 64
_TILE = r"_(\d{2,3})x(\d{2,3})(?:x\d+)?_"
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
    has_bf16 = bool(known.get_column("bf16").all())
    limited = _limit_by_memory(run, known.with_columns(factor=1 / pl.col("ratio")))
    fed = limited.filter(pl.col("shaped") | _is_large(run, limited)).get_column("length").sum()
    pytorch = _advise(has_tf32, has_bf16)
    fix = choose_fix(
        run,
        _NEUTRAL,
        pytorch=pytorch,
        # A scaler of gradients is for who has gradients.
        inference=pytorch.replace(" with a GradScaler", ""),
        native=_NATIVE,
        jax=_JAX,
    )
    found = find_shorter_kernels(
        run,
        RULE,
        limited.drop("shaped"),
        "Matrix products in fp32 take {share} of the window more than on the tensor cores at peak.",
        cause=_explain(has_tf32, has_bf16),
        fix=fix,
        sources=("NVIDIA's datasheets, dense rates: docs/roofline.md",),
        # Of small products of unknown shape nothing says that tensor cores could be fed.
        confidence="medium" if 2 * fed > limited.get_column("length").sum() else "low",
        is_bound=True,
    )
    yield from _remark(run, limited, fix) if found is None else (found,)


def _remark(run: Run, plain: pl.DataFrame, fix: str) -> Iterator[Finding]:
    """A note where the products are much of the kernel time, and the host limits today."""
    whole = max(sum_column(list_kernels(run), "length"), 1)
    pct = 100 * sum_column(plain, "length") / whole
    if pct < NOTED_PCT:
        return
    row = plain.sort("length", "name").row(-1, named=True)
    yield build_finding(
        RULE,
        f"{format_pct(pct)} of the kernel time is matrix products in fp32, without tensor cores.",
        Evidence(
            [f"{format_count(plain.height)} × {shorten_kernel_name(row['name'])} and alike"],
            where={"kernel": row["name"]},
        ),
        Advice(fix=fix, verify="sightline stats kernels AFTER: total_ns of these kernels"),
        severity="info",
        confidence="high",
    )


def _list_ratios(run: Run) -> pl.DataFrame:
    """Per device how many times faster its tensor cores are than fp32, and whether in TF32.

    TF32 where that is faster, as it needs no other types; else 16 bits.
    """
    rows = []
    for device in run.table("devices").iter_rows(named=True):
        rates = compare_rates(device)
        short = rates.get("bf16_tensor") or rates.get("fp16_tensor")
        tf32 = rates.get("tf32_tensor", 0.0)
        has_tf32 = tf32 >= _LEAST_RATIO
        # Of a GPU without tensor cores this is known, too: there is nothing to gain.
        ratio = tf32 if has_tf32 else short or (1.0 if rates else None)
        rows.append((device["rank"], device["device_id"], ratio, has_tf32, "bf16_tensor" in rates))
    flags = {"tf32": pl.Boolean, "bf16": pl.Boolean}
    schema = {"rank": pl.Int64, "device_id": pl.Int64, "ratio": pl.Float64} | flags
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


def _is_large(run: Run, plain: pl.DataFrame) -> pl.Series:
    """Which launches are of products so large that tensor cores can be fed, by tile and grid."""
    filled = list_filled(run).select("device_op_id", "blocks", "sm_count")
    tiles = pl.col("name").str.extract_groups(_TILE)
    sides = [tiles.struct.field(k).cast(pl.Int64, strict=False) for k in ("1", "2")]
    return (
        plain.join(filled, on="device_op_id", how="left", maintain_order="left")
        .select(
            is_large=(
                (pl.min_horizontal(sides) >= _LARGE_TILE)
                & (pl.col("blocks") >= pl.col("sm_count"))
                & (pl.col("length") >= _LARGE_NS)
            ).fill_null(value=False)
        )
        .to_series()
    )


def _explain(has_tf32: bool, has_bf16: bool) -> str:
    if has_tf32:
        return "fp32 matrix products are not allowed to use TF32"
    if has_bf16:
        return "on this GPU TF32 is hardly faster than fp32: its tensor cores need 16 bits"
    return "this GPU has no TF32: its tensor cores need fp16"


def _advise(has_tf32: bool, has_bf16: bool) -> str:
    """For PyTorch: TF32 where the device is faster in it, else mixed precision."""
    if has_tf32:
        return (
            'torch.set_float32_matmul_precision("high"), or bf16 with torch.autocast; sizes that '
            "are multiples of 8"
        )
    if has_bf16:
        return (
            "mixed precision: torch.autocast(device_type='cuda', dtype=torch.bfloat16); sizes that "
            "are multiples of 8"
        )
    return (
        "mixed precision: torch.autocast(device_type='cuda', dtype=torch.float16) with a "
        "GradScaler; sizes that are multiples of 8"
    )
