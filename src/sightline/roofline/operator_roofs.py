"""Operators under their roofs: what a recorded call computes and moves, and the least it takes.

Counted from shapes, so nothing was measured but the time: the roof is the datasheet's, dense, of
the pipe that the call used. Data that is still in a cache need not come from memory, so small
operators may stand above their roof.
"""

from __future__ import annotations

from functools import cache

import polars as pl

from sightline.core.algebra.window import select_starting_in
from sightline.core.model.run import Run
from sightline.roofline.hardware import find_gpu
from sightline.roofline.operators import MODELS, count_operator_work
from sightline.roofline.operators.arguments import parse_arguments
from sightline.roofline.operators.nvtx import list_nvtx_calls
from sightline.roofline.rates import find_bandwidth
from sightline.timeline.classes import COMPUTE, list_class
from sightline.timeline.host_ranges import find_host_ancestor, list_host_names

ARGUMENTS = ("input_shapes", "input_types", "input_strides", "input_values")
CALL = ("name", *ARGUMENTS)
# Kernels of cuBLAS, cuDNN and CUTLASS that compute fp32 products as TF32 name the type or the
# instruction (m16n8k8 of 32-bit inputs: s1688).
_TF32 = r"(?i)tf32|s1688|_s16816"
_TENSOR_PIPES = {
    "double": ("fp64_tensor", "fp64"),
    "c10::Half": ("fp16_tensor",),
    "c10::BFloat16": ("bf16_tensor",),
    "c10::Float8_e4m3fn": ("fp8_tensor",),
    "c10::Float8_e4m3fnuz": ("fp8_tensor",),
    "c10::Float8_e5m2": ("fp8_tensor",),
    "c10::Float8_e5m2fnuz": ("fp8_tensor",),
    "signed char": ("int8_tensor",),
}
# Matrix cores of AMD take fp32 as it is; on NVIDIA's, fp32 is TF32 or runs on the vector units.
_FP32 = {True: ("tf32_tensor",), False: ("fp32_tensor", "fp32")}
_REACHED = ("bf16_tensor", "fp16_tensor")

_WORK = {
    "kind": pl.String,
    "flop": pl.Int64,
    "moved_bytes": pl.Int64,
    "dtype": pl.String,
    "dims": pl.String,
    **dict.fromkeys(("m", "n", "k", "batch"), pl.Int64),
}


def place_operators(run: Run) -> pl.DataFrame:
    """The calls of known operators that launched kernels in the window, one row each.

    Of operators in one another the outermost with a model counts. Columns: host_op_id, rank,
    device_id, the call's name and arguments, kind, flop, moved_bytes, dtype, dims, m, n, k, batch,
    pipe, kernel_ns, kernels, peak_flop_per_s, peak_bytes_per_s, roof_ns (float), bound, and
    reach_ns: the roof with the best product that a benchmark reached, where the table has one.
    """
    return run.once(_place_operators)


def list_operator_kernels(run: Run) -> pl.DataFrame:
    """The window's compute kernels, with `owner`: the known operator's call that launched each.

    Columns: device_op_id, rank, device_id, name, start_ns, length, launch_id, owner (null where no
    operator with a model launched it).
    """
    return run.once(_list_operator_kernels)


def _list_operator_kernels(run: Run) -> pl.DataFrame:
    used = ("device_op_id", "rank", "device_id", "name", "start_ns", "launch_id")
    ops = list_class(run, COMPUTE, [*used, "kind", "end_ns"]).filter(pl.col("kind") == "kernel")
    ops = ops.select(*used, length=pl.col("end_ns") - pl.col("start_ns"))
    ops = select_starting_in(ops, run.ask("windows"))
    owner = pl.Series([None] * ops.height, dtype=pl.Int64)
    if (calls := run.once(_count_work)).height:
        wanted = _select_outermost(calls).get_column("host_op_id")
        owner = find_host_ancestor(run, ops.get_column("launch_id"), wanted)
    return ops.with_columns(owner=owner)


def _place_operators(run: Run) -> pl.DataFrame:
    calls = (
        list_operator_kernels(run)
        .drop_nulls("owner")
        .group_by("owner", "rank", "device_id")
        .agg(
            kernel_ns=pl.col("length").sum(),
            kernels=pl.len(),
            is_tf32=pl.col("name").str.contains(_TF32).any(),
        )
        .join(run.once(_count_work), left_on="owner", right_on="host_op_id")
        .rename({"owner": "host_op_id"})
        .sort("host_op_id", "rank", "device_id")
    )
    peaks = _list_peaks(run, calls.select("rank", "device_id", "dtype", "is_tf32").unique())
    joined = calls.join(
        peaks, on=["rank", "device_id", "dtype", "is_tf32"], how="left", nulls_equal=True
    ).sort("host_op_id", "rank", "device_id")
    counts = pl.col("flop").is_not_null()
    joined = joined.with_columns(
        pl.when(counts).then(name).alias(name)
        for name in ("pipe", "peak_flop_per_s", "reached_flop_per_s")
    )
    compute, reached = (
        1e9 * pl.col("flop") / pl.col(peak) for peak in ("peak_flop_per_s", "reached_flop_per_s")
    )
    memory = 1e9 * pl.col("moved_bytes") / pl.col("peak_bytes_per_s")
    # Without one of the two ceilings the lower one is not known.
    known = memory.is_not_null() & (~counts | compute.is_not_null())
    return joined.with_columns(
        roof_ns=pl.when(known).then(pl.max_horizontal(compute, memory)),
        reach_ns=pl.when(known).then(pl.max_horizontal(reached, memory)),
        bound=pl.when(known).then(
            pl.when(compute > memory).then(pl.lit("compute")).otherwise(pl.lit("memory"))
        ),
    )


def _count_work(run: Run) -> pl.DataFrame:
    """Calls of operators that have a model and arguments that make sense, with their work."""
    names = list_host_names(run).different
    known = [n for n in names.to_list() if n in MODELS]
    used = run.columns("host_ops", ["host_op_id", "subtree_end_id", *CALL])
    calls = used.filter(pl.col("name").is_in(known) & pl.col("input_shapes").is_not_null())
    calls = calls.with_columns(pl.col("name").cast(pl.String))
    if (ranges := list_nvtx_calls(run, names)).height:
        calls = pl.concat([calls, ranges.select(calls.columns)]).sort("host_op_id")
    if calls.is_empty():
        return calls.with_columns(pl.lit(None, t).alias(c) for c, t in _WORK.items())
    unique = calls.select(CALL).unique(maintain_order=True)
    work = pl.DataFrame([_describe_work(*row) for row in unique.iter_rows()], _WORK, orient="row")
    return calls.join(unique.hstack(work), on=CALL, nulls_equal=True).drop_nulls("kind")


def _describe_work(name: str, *arguments: str | None) -> tuple[object, ...]:
    args = parse_arguments(*arguments)
    work = None if args is None else count_operator_work(name, args)
    if work is None or max(work.moved_bytes, work.flop or 0) >= 2**62:
        return (None,) * len(_WORK)
    dims = dict(work.dims)
    text = " ".join(f"{size}={count}" for size, count in work.dims)
    sizes = (dims.get(size) for size in ("m", "n", "k", "batch"))
    return work.kind, work.flop, work.moved_bytes, work.dtype, text, *sizes


def _select_outermost(calls: pl.DataFrame) -> pl.DataFrame:
    """Calls in no other one: ids count in preorder, so a subtree is a range of them."""
    in_order = calls.sort("host_op_id")
    reach = pl.col("subtree_end_id").cum_max().shift(1)
    return in_order.filter((pl.col("host_op_id") >= reach).fill_null(value=True))


def _list_peaks(run: Run, asked: pl.DataFrame) -> pl.DataFrame:
    """Each device's ceilings for each type: pipe, peak and best reached FLOP/s, and bytes/s."""
    devices = {(d["rank"], d["device_id"]): d for d in run.table("devices").iter_rows(named=True)}
    rows = []
    for rank, device, dtype, is_tf32 in asked.iter_rows():
        known = devices.get((rank, device), {})
        gpu = find_gpu(known.get("name"), known.get("memory_bytes"))
        peaks = gpu.peaks() if gpu else {}
        pipe = next((p for p in _list_pipes(dtype, is_tf32) if p in peaks), None)
        bandwidth = find_bandwidth(known)
        peak = peaks.get(pipe or "")
        # The benchmarks multiply bf16; fp16 runs on the same pipe at the same rate.
        best = gpu.number("achievable.bf16_tensor") if gpu and pipe in _REACHED else None
        rows.append((rank, device, dtype, is_tf32, pipe, peak, best or peak, bandwidth))
    schema = {
        "rank": pl.Int64,
        "device_id": pl.Int64,
        "dtype": pl.String,
        "is_tf32": pl.Boolean,
        "pipe": pl.String,
        "peak_flop_per_s": pl.Float64,
        "reached_flop_per_s": pl.Float64,
        "peak_bytes_per_s": pl.Float64,
    }
    return pl.DataFrame(rows, schema, orient="row")


@cache
def _list_pipes(dtype: str | None, is_tf32: bool) -> tuple[str, ...]:
    """The pipes that multiply this type, the first that a GPU has counts."""
    return _FP32[is_tf32] if dtype == "float" else _TENSOR_PIPES.get(dtype or "", ())
