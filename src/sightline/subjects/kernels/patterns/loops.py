"""Loops on the host over rows or tensors, of which each turn launches kernels of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from sightline.roofline.operators.arguments import Arguments, read_json
from sightline.subjects.kernels.patterns._sizes import get_bytes
from sightline.subjects.kernels.patterns.calls import Calls
from sightline.subjects.kernels.patterns.declare import (
    MATCHES,
    Keep,
    Pattern,
    make_matches,
    match_row,
)
from sightline.timeline.host_ranges import list_host_names

# So many rows in order are a loop over them (ours: torch.profiler's ForLoopIndexingPattern takes
# ten, which a batch of ten heads has, too).
_TURNS = 16
# A product of fewer tiles of 128 × 128 fills a small part of a GPU (NVIDIA, Matrix Multiplication
# Background User's Guide: tiles and waves; GPUs have 40 to 160 multiprocessors).
_FEW_TILES, _TILE = 16, 128
_ROW = ("host_op_id", "rank", "tid", "input_shapes", "input_values")


def _find_indexing(calls: Calls) -> pl.DataFrame:
    """Calls between x[0], x[1], … on one thread: one turn stays, which then does all of them."""
    loops = _list_loops(calls)
    if loops.is_empty():
        return make_matches(())
    forward = calls.table.filter(pl.col("node").is_null())
    # What launches nothing forward, such as a selection, has backward operators that do.
    silent = calls.table.select(call="of_call").drop_nulls().unique()
    host = calls.run.columns("host_ops", ["host_op_id", "rank", "tid"])
    silent = silent.join(forward, on="call", how="anti").join(
        host, left_on="call", right_on="host_op_id"
    )
    wanted = ["call", "rank", "tid", "kernel_ns"]
    candidates = pl.concat(
        [forward.select(wanted), silent.with_columns(kernel_ns=pl.lit(0)).select(wanted)],
        how="vertical_relaxed",
    ).sort("call")
    inside = candidates.join_asof(
        loops.sort("first"),
        left_on="call",
        right_on="first",
        by=["rank", "tid"],
        check_sortedness=False,
    ).filter(pl.col("call") <= pl.col("last"))
    kept = pl.col("kernel_ns").sum().over("first") / pl.col("turns")
    return inside.select("call", match="first", keep_bytes=pl.lit(0.0), keep_ns=kept).select(
        *MATCHES
    )


def _list_loops(calls: Calls) -> pl.DataFrame:
    """Runs of aten::select at indices that count up: the first and last id, and how many."""
    names = list_host_names(calls.run)
    host = calls.run.columns("host_ops", _ROW)
    selects = host.filter(names.match(r"^aten::select$")).drop_nulls("input_values")
    texts = selects.get_column("input_values").cast(pl.String)
    place = {text: _read_place(text) for text in texts.unique().to_list()}
    dim, index = (
        pl.Series([place[text][i] for text in texts.to_list()], dtype=pl.Int64) for i in range(2)
    )
    shapes = pl.col("input_shapes").cast(pl.String)
    selects = selects.with_columns(shapes=shapes, dim=dim, index=index).drop_nulls("index")
    loop = ["rank", "tid", "shapes", "dim"]
    # Several tensors of one shape are taken apart in turn: each index comes as often as there are.
    step = pl.col("index") - pl.col("index").shift(1)
    return (
        selects.sort(*loop, "host_op_id")
        .with_columns(run=~step.is_in([0, 1]).fill_null(value=False))
        .with_columns(run=pl.col("run").cast(pl.Int64).cum_sum().over(loop))
        .group_by(*loop, "run")
        .agg(
            first=pl.col("host_op_id").min(),
            last=pl.col("host_op_id").max(),
            turns=pl.col("index").n_unique(),
        )
        .filter(pl.col("turns") >= _TURNS)
        .select("rank", "tid", "first", "last", "turns")
    )


def _read_place(text: str) -> tuple[int | None, int | None]:
    """Dimension and index of `aten::select`, whose values are written as ["", "0", "5"]."""
    values = read_json(text)
    try:
        return int(values[1]), int(values[2])
    except (TypeError, ValueError, IndexError):
        return None, None


def _keep_norms(several: Sequence[Arguments]) -> Keep:
    """Norms of tensors, one by one: each is read once."""
    return sum(get_bytes(args.tensor(0)) for args in several)


def _keep_updates(several: Sequence[Arguments]) -> Keep:
    """Updates in place of many tensors: all are read and written once, with as much beside them."""
    own = {id(args): get_bytes(args.tensor(0)) for args in several}
    return 3 * sum(own.values()) // 2 if all(own.values()) else None


def _keep_batched(several: Sequence[Arguments]) -> Keep:
    """Equal small products, one after the other: what they read and write stays."""
    a, b = several[0].tensors()[-2:] if len(several[0].tensors()) >= 2 else (None, None)
    if a is None or b is None or len(a.shape) != 2 or len(b.shape) != 2:
        return None
    m, n = a.shape[0], b.shape[1]
    if len({id(args) for args in several}) > 1 or m == n == a.shape[1]:
        return None  # of square matrices, one product may be the next one's factor
    tiles = math.ceil(m / _TILE) * math.ceil(n / _TILE)
    each = get_bytes(a) + get_bytes(b) + m * n * a.element_bytes
    return len(several) * each if tiles < _FEW_TILES else None


PATTERNS = (
    Pattern(
        "loop-over-rows",
        "Loop in Python over the rows of a tensor",
        _find_indexing,
        cause="a loop in Python takes x[0], x[1], … in turn, each with kernels of its own",
        fix="do it for the whole tensor at once: operators accept another dimension, masks and "
        "torch.where separate cases, torch.vmap vectorizes it for you",
        source="torch.profiler: ForLoopIndexingPattern (_pattern_matcher.py)",
        confidence="high",
    ),
    Pattern(
        "norms-one-by-one",
        "Norms of tensors one by one",
        match_row("aten::(?:linalg_vector_norm|norm) {16,}", keep=_keep_norms),
        cause="the norm of each tensor is a kernel of its own, for example where gradients are "
        "clipped",
        fix="torch.nn.utils.clip_grad_norm_(..., foreach=True), or torch._foreach_norm",
        source="PyTorch: torch.nn.utils.clip_grad_norm_ (foreach)",
        with_backward=False,
    ),
    Pattern(
        "updates-one-by-one",
        "Tensors updated one by one",
        match_row("aten::(?:mul_|add_|lerp_|sub_) {64,}", keep=_keep_updates),
        cause="tensors are updated one after the other, as in a moving average of weights",
        fix="torch._foreach_lerp_ (torch.optim.swa_utils.get_ema_multi_avg_fn)",
        source="PyTorch: torch.optim.swa_utils (get_ema_multi_avg_fn)",
        with_backward=False,
    ),
    Pattern(
        "small-products-one-by-one",
        "Small matrix products one by one",
        match_row("aten::(?:mm|addmm) {8,}", keep=_keep_batched),
        cause="equal small matrix products run one after the other, each of which fills a small "
        "part of the GPU",
        fix="torch.bmm over a stack of them (cublasGemmStridedBatched, grouped products)",
        source="NVIDIA: cuBLAS, batched GEMM; Matrix Multiplication Background User's Guide",
        confidence="low",
    ),
)
