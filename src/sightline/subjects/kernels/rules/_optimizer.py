"""Optimizers that launch kernels for each parameter: what they launch, and what fusing leaves."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows, match_names
from sightline.core.model.run import Run
from sightline.subjects.kernels.rules._shared import list_kernels
from sightline.timeline.host_ranges import find_host_ancestor, list_host_names

# torch.optim.Optimizer wraps each step in a range "Optimizer.step#NAME.step" (torch/optim/
# optimizer.py, profile_hook_step); with Python stacks the function itself is there too.
STEP = r"^Optimizer\.step#|^torch/optim/\w+\.py\(\d+\): step$"
# What steps over whole lists of tensors launches: ATen's foreach and fused kernels and those of
# Apex and DeepSpeed (multi_tensor_apply), Inductor's (triton_*).
_FUSED = r"multi_tensor_apply|(?i:fused)|^triton_"
# A list of tensors is worked through some hundred tensors a launch (ATen, MultiTensorApply.cuh:
# at most 110 tensors and 320 blocks), so that a dozen kernels make a step of all but the largest
# models; with more than this in one step, each parameter has kernels of its own (ours).
LEAST_KERNELS = 50


def list_optimizer_loops(run: Run) -> pl.DataFrame:
    """The kernels of optimizer steps that go from parameter to parameter.

    Rows of `list_kernels` with `step_id` (the step's host range) and `parameter` (a number within
    the step: kernels that are launched for the same one).
    """
    return run.once(_list_optimizer_loops)


def _list_optimizer_loops(run: Run) -> pl.DataFrame:
    ids = run.table("host_ops", ["host_op_id"]).get_column("host_op_id")
    steps = ids.filter(list_host_names(run).match(STEP))
    kernels = list_kernels(run).drop_nulls("launch_id")
    if steps.is_empty():  # to climb from every launch to the top would find nothing
        none = {"step_id": pl.Int64, "parameter": pl.Int64}
        return kernels.clear().with_columns(pl.lit(None, t).alias(n) for n, t in none.items())
    owner = find_host_ancestor(run, kernels.get_column("launch_id"), steps)
    inside = kernels.with_columns(step_id=owner).drop_nulls("step_id")
    alone = inside.filter(~match_names(inside, _FUSED))
    return _number_parameters(run, alone.filter(pl.len().over("step_id") >= LEAST_KERNELS))


def _number_parameters(run: Run, loops: pl.DataFrame) -> pl.DataFrame:
    """With `parameter`: a new one begins where the step's first operation comes again."""
    host = run.table("host_ops", ["host_op_id", "parent_id", "name"])
    ids = host.get_column("host_op_id")
    parents = host.get_column("parent_id").gather(find_rows(ids, loops.get_column("launch_id")))
    op = host.get_column("name").gather(find_rows(ids, parents))
    in_order = loops.with_columns(_op=op.fill_null("") + " " + loops.get_column("name")).sort(
        "step_id", "launch_id"
    )
    begins = pl.col("_op") == pl.col("_op").first().over("step_id")
    return in_order.with_columns(parameter=begins.cast(pl.Int64).cum_sum().over("step_id")).drop(
        "_op"
    )
