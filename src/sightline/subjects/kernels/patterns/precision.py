"""Types that are wider than the work needs."""

from __future__ import annotations

import polars as pl

from sightline.roofline.operators import count_operator_work
from sightline.roofline.operators.arguments import Arguments, Tensor
from sightline.roofline.operators.work import CONVOLUTION, GEMM, OperatorWork
from sightline.subjects.kernels.patterns.calls import Calls
from sightline.subjects.kernels.patterns.declare import (
    MATCHES,
    Keep,
    Pattern,
    make_matches,
    match_each,
)
from sightline.subjects.kernels.patterns.rates import REACHED

_DOUBLE, _FLOAT = "double", "float"
# The operators of the memory-efficient backend, which alone takes fp32; the dimension of tokens in
# their inputs (aten/src/ATen/native/native_functions.yaml).
_EFFICIENT = {
    "aten::_efficient_attention_forward": 1,
    "aten::_scaled_dot_product_efficient_attention": 2,
}


def _find_fp64_products(calls: Calls) -> pl.DataFrame:
    """Products and convolutions of doubles: their operations at the rate of fp32."""
    rate = calls.flop_per_s.get("fp32")
    if not rate:
        return make_matches(())
    kept = {
        kind: 1e9 * work.flop / rate
        for kind, (name, args) in enumerate(calls.kinds)
        if (work := _count(name, args)) is not None
        and work.dtype == _DOUBLE
        and work.kind in (GEMM, CONVOLUTION)
        and work.flop
    }
    return _keep_by_kind(calls, kept)


def _find_fp32_attention(calls: Calls) -> pl.DataFrame:
    """Fused attention of floats: its operations at the rate of products in 16 bits."""
    rate = calls.flop_per_s.get(REACHED)
    if not rate:
        return make_matches(())
    kept: dict[int, float] = {}
    for kind, (name, args) in enumerate(calls.kinds):
        query, key = (args.tensor(i) if args else None for i in range(2))
        if name in _EFFICIENT and query and key and query.dtype == _FLOAT and len(key.shape) == 4:
            kept[kind] = 1e9 * 4 * query.elements * key.shape[_EFFICIENT[name]] / rate
    return _keep_by_kind(calls, kept)


def _keep_by_kind(calls: Calls, kept: dict[int, float]) -> pl.DataFrame:
    known = pl.DataFrame(
        {"kind": list(kept), "keep_ns": list(kept.values())},
        schema={"kind": pl.Int64, "keep_ns": pl.Float64},
    )
    found = calls.table.join(known, on="kind", maintain_order="left")
    return found.select("call", "keep_ns", match="call", keep_bytes=pl.lit(0.0)).select(*MATCHES)


def _keep_half(args: Arguments) -> Keep:
    """A pass over doubles: as floats it moves half the bytes. Its result counts as an input."""
    wide = [t for t in args.tensors() if t.dtype == _DOUBLE]
    if not wide or len(wide) < len(args.tensors()):
        return None
    return (sum(map(_measure, wide)) + max(map(_measure, wide))) // 2


def _measure(tensor: Tensor) -> int:
    return tensor.stored_bytes


def _count(name: str, args: Arguments | None) -> OperatorWork | None:
    return None if args is None else count_operator_work(name, args)


PATTERNS = (
    Pattern(
        "products-in-fp64",
        "Matrix products in fp64",
        _find_fp64_products,
        cause="matrix products run in double precision, which the GPU computes at a fraction of "
        "its fp32 rate",
        fix="float32 (or bf16) where the result allows it: torch.from_numpy of a NumPy array is "
        "float64 by default; .float(), torch.set_default_dtype",
        source="CUDA C++ Programming Guide: Arithmetic Instructions; PyTorch: torch.from_numpy",
    ),
    Pattern(
        "passes-in-fp64",
        "Elementwise operators in fp64",
        match_each(
            "aten::(?:add|sub|mul|div|pow|exp|log|sqrt|tanh|sigmoid|relu|clamp_min|sum|mean|"
            "_softmax|native_layer_norm|copy_|where|addcmul|addcdiv)_?",
            _keep_half,
        ),
        cause="tensors of doubles move twice the bytes of floats",
        fix="float32 where the result allows it: torch.from_numpy of a NumPy array is float64 by "
        "default",
        source="PyTorch: torch.from_numpy, torch.set_default_dtype",
    ),
    Pattern(
        "attention-in-fp32",
        "Fused attention in fp32",
        _find_fp32_attention,
        cause="attention runs in fp32, which the flash backends do not support",
        fix="fp16 or bf16 (torch.autocast), for which scaled_dot_product_attention has flash "
        "attention",
        source="PyTorch: scaled_dot_product_attention (its flash backend takes fp16 and bf16)",
    ),
)
