"""Calls of operators that PyTorch wrote as NVTX ranges: their shapes, and types by their kernels.

torch.autograd.profiler.emit_nvtx(record_shapes=True) names a range "aten::mm, seq = 12, op_id = 7,
sizes = [[8, 4], [4, 2]], input_op_ids = [...]" (torch/csrc/profiler/util.cpp, getNvtxStr). Types of
elements are not in it; names of kernels that multiply or pass over tensors hold them.
"""

from __future__ import annotations

import json

import polars as pl

from sightline.core.algebra.trees import find_nearest_ancestor
from sightline.core.model.run import Run

_RANGE = (
    r"^(?P<name>\w+::\w+)(?:, seq = -?\d+)?(?:, op_id = \d+)?, sizes = (?P<input_shapes>\[.*?\])"
    r"(?:, input_op_ids = .*)?$"
)
# By what cuBLAS, cuDNN, CUTLASS, nvJet and PyTorch write into names of kernels, the narrower first:
# a product of bf16 adds up in f32. Letters of nvJet: t bf16, h fp16, s fp32 (seen, not documented).
_TYPES = {
    "c10::BFloat16": r"(?i)bf16|bfloat16|nvjet_t",
    "c10::Half": r"(?i)c10::half|__half|fp16|[^b]f16f16|hgemm|h\d*(?:884|1688|16816)|nvjet_h",
    "double": r"(?i)dgemm|d884|double|f64f64",
    "float": r"(?i)sgemm|s1688|tf32|f32f32|float|nvjet_s",
}


def list_nvtx_calls(run: Run, names: pl.Series) -> pl.DataFrame:
    """The ranges among `names` that hold shapes, as calls, where a kernel tells their type.

    Columns: host_op_id, subtree_end_id, name, and input_shapes, _types, _strides and _values as
    `host_ops` has them. A scalar ([]) has no type, and all tensors of a call have one.
    """
    host = run.table("host_ops", ["host_op_id", "parent_id", "subtree_end_id", "name"])
    texts = names.filter(names.str.contains(", sizes = [", literal=True)).alias("text").to_frame()
    parts = texts.with_columns(pl.col("text").str.extract_groups(_RANGE).alias("parts"))
    known = parts.unnest("parts").drop_nulls("name")
    if known.is_empty():
        return host.select("host_op_id", "subtree_end_id", "name").clear()
    ranges = host.select("host_op_id", "subtree_end_id", text=pl.col("name").cast(pl.String))
    ranges = ranges.join(known, on="text", maintain_order="left").drop("text")
    kernels = run.table("device_ops", ["kind", "name", "launch_id"]).filter(
        pl.col("kind") == "kernel"
    )
    ids = ranges.get_column("host_op_id")
    owner = find_nearest_ancestor(host, kernels.get_column("launch_id"), ids)
    dtypes = kernels.select(owner.alias("host_op_id"), dtype=_name_type()).drop_nulls()
    dtypes = dtypes.unique("host_op_id", keep="first", maintain_order=True)
    calls = ranges.join(dtypes, on="host_op_id", maintain_order="left")
    kinds = calls.select("input_shapes", "dtype").unique(maintain_order=True)
    types = [_repeat_type(shapes, dtype) for shapes, dtype in kinds.iter_rows()]
    kinds = kinds.with_columns(input_types=pl.Series(types, dtype=pl.String))
    return calls.join(kinds, on=["input_shapes", "dtype"], maintain_order="left").with_columns(
        input_strides=pl.lit(None, pl.String), input_values=pl.lit(None, pl.String)
    )


def _name_type() -> pl.Expr:
    """The type of elements that a kernel's name holds, or null."""
    found = pl.lit(None, pl.String)
    for dtype, pattern in reversed(_TYPES.items()):
        found = pl.when(pl.col("name").str.contains(pattern)).then(pl.lit(dtype)).otherwise(found)
    return found


def _repeat_type(shapes: str, dtype: str) -> str | None:
    """One type for each shape, as JSON; null where the shapes are none."""
    try:
        found = json.loads(shapes)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list):
        return None
    return json.dumps([dtype if shape else "Scalar" for shape in found])
