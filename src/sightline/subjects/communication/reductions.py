"""Reductions of gradients that are reduced again before the optimizer uses them."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover
from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import match_names
from sightline.core.model.run import Run
from sightline.timeline.classes import COMPUTE, list_class
from sightline.timeline.communication import SMALL_BYTES, list_communication
from sightline.timeline.host_ranges import find_host_ancestor, list_host_names

_DEVICE = ["rank", "device_id"]
_REDUCES = r"(?i)all_?reduce|reduce_?scatter"
# ATen's foreach and fused optimizers, Apex' and DeepSpeed's (multi_tensor_apply, adam, lamb).
_OPTIMIZER = r"(?i)multi_tensor_apply|adam|lamb|(?:^|[^a-z])sgd|adagrad|rmsprop"
_BACKWARD = r"^autograd::engine::evaluate_function|Backward\d*$"
_LEAST_STEPS = 2


def list_early_reductions(run: Run) -> pl.DataFrame:
    """The reductions of all micro-steps but each step's last: rows of `list_communication`.

    With `step` (of the optimizer) and `rounds`, in how many micro-steps the same sizes are reduced.
    Empty where fewer than two steps of the optimizer show them.
    """
    return run.once(_list_early)


def _list_early(run: Run) -> pl.DataFrame:
    rounds = _list_rounds(run, list_backward(run))
    early = rounds.filter("is_early").drop("is_early")
    return early if early.get_column("step").n_unique() >= _LEAST_STEPS else early.clear()


def measure_early(run: Run) -> pl.DataFrame:
    """Of each device how long these reductions run without compute: rank, device_id and `ns`."""
    return run.once(_measure_early)


def _measure_early(run: Run) -> pl.DataFrame:
    return _measure_exposed(run, list_early_reductions(run))


def list_backward(run: Run) -> pl.Series:
    """The host ranges of backward work, by id; none where they were not recorded."""
    ids = run.table("host_ops", ["host_op_id"]).get_column("host_op_id")
    return ids.filter(list_host_names(run).match(_BACKWARD))


def _list_rounds(run: Run, backward: pl.Series) -> pl.DataFrame:
    """Reductions with `step` (optimizer steps before it), `rounds`, and whether it `is_early`."""
    comm = list_communication(run).filter(
        pl.col("op").str.contains(_REDUCES) & pl.col("size").is_not_null()
    )
    kernels = list_class(run, COMPUTE, [*_DEVICE, "name", "start_ns"])
    updates = kernels.filter(match_names(kernels, _OPTIMIZER)).sort(*_DEVICE, "start_ns")
    if comm.is_empty() or updates.is_empty():
        return _mark_early(comm.clear().with_columns(step=pl.lit(0, pl.UInt32)))
    step = find_latest(comm, "start_ns", updates, "start_ns", _DEVICE)
    comm = comm.with_columns(step=step).sort(*_DEVICE, "start_ns")
    if backward.len():
        owner = find_host_ancestor(run, comm.get_column("launch_id"), backward)
        comm = comm.with_columns(in_backward=owner.is_not_null())
        # Whoever reduces outside of backward work reduces activations.
        comm = comm.filter(pl.col("in_backward").all().over("rank", "group"))
    return _mark_early(comm)


def _mark_early(comm: pl.DataFrame) -> pl.DataFrame:
    """What belongs to a round that is repeated before the optimizer's next step."""
    by = [*_DEVICE, "group", "step"]
    sizes = comm.group_by(by, maintain_order=True).agg("size")
    rounds = [_count_rounds(each) for each in sizes.get_column("size").to_list()]
    known = sizes.select(by).with_columns(rounds=pl.Series(rounds, dtype=pl.Int64))
    place, count = pl.int_range(pl.len()).over(by), pl.len().over(by)
    return (
        comm.join(known, on=by, how="left", nulls_equal=True, maintain_order="left")
        .filter(pl.col("rounds") > 1)
        .with_columns(is_early=place < count - count // pl.col("rounds"))
    )


def _count_rounds(sizes: list[int]) -> int:
    """How often a sequence is the same part in a row; 1 where it is not, or sends too little.

    A part of one size alone is none: layers that reduce activations look so.
    """
    for part in range(1, len(sizes) // 2 + 1):
        if len(sizes) % part or sizes != sizes[:part] * (len(sizes) // part):
            continue
        is_gradients = len(set(sizes[:part])) > 1 or len(sizes) // part <= 8
        return len(sizes) // part if is_gradients and sum(sizes[:part]) >= SMALL_BYTES else 1
    return 1


def _measure_exposed(run: Run, early: pl.DataFrame) -> pl.DataFrame:
    """Of each device how long these reductions run without compute: `ns`."""
    span = [*_DEVICE, "start_ns", "end_ns"]
    compute = list_class(run, COMPUTE, span)
    both = measure_cover(pl.concat([compute.select(span), early.select(span)]), _DEVICE)
    alone = measure_cover(compute, _DEVICE).rename({"covered_ns": "compute_ns"})
    return both.join(alone, on=_DEVICE, how="left").select(
        *_DEVICE, ns=pl.col("covered_ns") - pl.col("compute_ns").fill_null(0)
    )
