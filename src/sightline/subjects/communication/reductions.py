"""Reductions of gradients that are reduced again before the optimizer uses them."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover
from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import find_rows, match_names
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
        return _mark_early(comm.clear().with_columns(step=pl.lit(0, pl.UInt32), passes=pl.lit(0)))
    step = find_latest(comm, "start_ns", updates, "start_ns", _DEVICE)
    comm = comm.with_columns(step=step).sort(*_DEVICE, "start_ns")
    if backward.len():
        owner = find_host_ancestor(run, comm.get_column("launch_id"), backward)
        comm = comm.with_columns(in_backward=owner.is_not_null())
        # Whoever reduces outside of backward work reduces activations.
        comm = comm.filter(pl.col("in_backward").all().over("rank", "group"))
    return _mark_early(comm.with_columns(passes=_number_passes(run, comm, backward)))


def _number_passes(run: Run, comm: pl.DataFrame, backward: pl.Series) -> pl.Series:
    """Which backward pass each reduction is launched in: passes have forward work between them."""
    nothing = pl.repeat(None, comm.height, dtype=pl.Int64, eager=True)
    if backward.is_empty() or comm.is_empty():
        return nothing
    kernels = list_class(run, COMPUTE, [*_DEVICE, "launch_id"]).drop_nulls("launch_id")
    owner = find_host_ancestor(run, kernels.get_column("launch_id"), backward)
    calls = run.table("host_ops", ["host_op_id", "start_ns"])

    def add_time(ops: pl.DataFrame) -> pl.DataFrame:
        rows = find_rows(calls.get_column("host_op_id"), ops.get_column("launch_id"))
        return ops.with_columns(called_ns=calls.get_column("start_ns").gather(rows))

    kernels = add_time(kernels.with_columns(forward=owner.is_null())).sort(*_DEVICE, "called_ns")
    before = pl.col("forward").shift(1, fill_value=False).over(_DEVICE)
    begins = ~pl.col("forward") & before
    numbered = kernels.with_columns(number=begins.cast(pl.Int64).cum_sum().over(_DEVICE))
    place = find_latest(add_time(comm), "called_ns", numbered, "called_ns", _DEVICE)
    return numbered.get_column("number").gather(place)


def _mark_early(comm: pl.DataFrame) -> pl.DataFrame:
    """What belongs to a round that is repeated before the optimizer's next step."""
    by = [*_DEVICE, "group", "step"]
    sizes = comm.group_by(by, maintain_order=True).agg(
        "size", passes=pl.col("passes").drop_nulls().n_unique()
    )
    rounds = [_count_rounds(*each) for each in sizes.select("size", "passes").rows()]
    known = sizes.select(by).with_columns(rounds=pl.Series(rounds, dtype=pl.Int64))
    place, count = pl.int_range(pl.len()).over(by), pl.len().over(by)
    return (
        comm.join(known, on=by, how="left", nulls_equal=True, maintain_order="left")
        .filter(pl.col("rounds") > 1)
        .with_columns(is_early=place < count - count // pl.col("rounds"))
    )


def _count_rounds(sizes: list[int], passes: int) -> int:
    """How often a sequence is the same part in a row; 1 where it is not, or sends too little.

    Of one size alone, buckets and rounds look the same: backward passes tell, where they are known.
    """
    if len(set(sizes)) == 1:
        is_round = passes > 1 and len(sizes) % passes == 0 and sum(sizes) >= SMALL_BYTES * passes
        return passes if is_round else 1
    for part in range(2, len(sizes) // 2 + 1):
        if len(sizes) % part or sizes != sizes[:part] * (len(sizes) // part):
            continue
        return len(sizes) // part if sum(sizes[:part]) >= SMALL_BYTES else 1
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
