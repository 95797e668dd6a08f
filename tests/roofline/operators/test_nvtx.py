"""Shapes in NVTX ranges, as torch's emit_nvtx(record_shapes=True) writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.exports import opened
from synth_nsys import Export

GEMM = "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
SIZES = "sizes = [[2600, 3000], [3000, 2000]]"


def efficiency(folder: Path, text: str, kernel: str = GEMM) -> list[dict[str, Any]]:
    """What is said of a kernel of 125 µs on an A100, launched in a range of this text."""
    export = Export("3.25.0")
    export.add("TARGET_INFO_GPU", id=0, name="NVIDIA A100-SXM4-80GB", smCount=108)
    export.range(text, 0, 20_000)
    export.api("cudaLaunchKernel", 5_000, 10_000, 1)
    export.kernel(kernel, 20_000, 145_000, 1)
    return opened(folder, export).ask("operator_efficiency").to_dicts()


@pytest.mark.parametrize(
    "text",
    [
        f"aten::mm, seq = 12, op_id = 345, {SIZES}, input_op_ids = [(12,0), (13,1)]",
        f"aten::mm, op_id = 345, {SIZES}",
        f"aten::mm, seq = 12, {SIZES}",
        f"aten::mm, {SIZES}",
    ],
)
def test_a_product_at_80_percent_of_its_roof(tmp_path: Path, text: str) -> None:
    """31.2 GFLOP in bf16 take 100 µs at 312 TFLOP/s."""
    (row,) = efficiency(tmp_path, text)
    assert (row["operator"], row["dims"], row["dtype"]) == (
        "aten::mm",
        "m=2600 n=2000 k=3000",
        "c10::BFloat16",
    )
    assert (row["roof_ns"], row["kernel_ns"], row["pipe"]) == (100_000, 125_000, "bf16_tensor")


@pytest.mark.parametrize(
    ("kernel", "dtype", "pipe"),
    [
        ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_tn", "c10::Half", "fp16_tensor"),
        ("cutlass_80_tensorop_s1688gemm_128x128", "float", "tf32_tensor"),
        ("ampere_dgemm_128x64_nn", "double", "fp64_tensor"),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN", "c10::BFloat16", "bf16_tensor"),
    ],
)
def test_the_type_is_what_the_kernels_name_holds(
    tmp_path: Path, kernel: str, dtype: str, pipe: str
) -> None:
    (row,) = efficiency(tmp_path, f"aten::mm, {SIZES}", kernel)
    assert (row["dtype"], row["pipe"]) == (dtype, pipe)


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        (f"aten::mm, {SIZES}", "mystery"),  # of no known type
        ("aten::mm, seq = 12", GEMM),
        ("aten::mm, sizes = [[2600, 3000], [3000", GEMM),
        ("aten::mm, sizes = [[2600, x], [3000, 2000]]", GEMM),
        (f"my own range, {SIZES}", GEMM),
        (f"mine::experts, {SIZES}", GEMM),
    ],
)
def test_what_is_not_counted(tmp_path: Path, text: str, kernel: str) -> None:
    assert efficiency(tmp_path, text, kernel) == []
