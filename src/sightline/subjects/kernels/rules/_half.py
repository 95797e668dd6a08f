"""Half precision as a way out, where passes over fp32 stand beside products on tensor cores."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.core.units import format_ns
from sightline.diagnosis.advice import choose_fix
from sightline.subjects.kernels.patterns.layout import CONVERSION
from sightline.subjects.kernels.rules._norms import FIXED_NORM
from sightline.subjects.kernels.rules._shared import POINTWISE, list_kernels, match_kernels

# Products that round fp32 to TF32 for the tensor cores: named for it, or after CUTLASS's
# instruction of Ampere, m16n8k8 (cutlass_80_tensorop_s1688gemm).
_TF32 = r"(?i)tf32|_80_tensorop_s1688"
# Kernels name their types as C++ has them: float, and beside it c10::Half, __half, BFloat16.
_FP32, _HALF = r"\bfloat\b", r"(?i)half|bfloat16|bf16"
_MOSTLY = 0.5  # of the passes' time (ours)


def advise_half(run: Run) -> str:
    """'; or …' behind another fix; empty where the recording does not show that it would help.

    Of elementwise kernels and batch normalizations most of the time must be in fp32, and products
    in TF32 must show that less than fp32's precision is enough already.
    """
    passes = list_kernels(run, f"{POINTWISE}|{FIXED_NORM}")
    name = pl.col("name").cast(pl.String)
    wide = passes.filter(name.str.contains(_FP32), ~name.str.contains(_HALF))
    whole, in_fp32 = (int(rows.get_column("length").sum()) for rows in (passes, wide))
    if not in_fp32 or in_fp32 < _MOSTLY * whole or not match_kernels(run, _TF32).any():
        return ""
    layout = " with channels_last" if match_kernels(run, CONVERSION).any() else ""
    how = choose_fix(run, "half precision", pytorch=f"torch.autocast(dtype=torch.bfloat16){layout}")
    return (
        f"; {how} halves the bytes of the passes over fp32 ({format_ns(in_fp32)}), whose products "
        "are in TF32 already"
    )
