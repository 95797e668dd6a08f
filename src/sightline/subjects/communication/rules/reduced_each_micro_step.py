"""Gradients are reduced in every micro-step, though the optimizer runs once for several.

Symptom
    Between two steps of the optimizer the same all-reduces, of the same sizes, run several times,
    each time behind a backward pass.

Why it hurts
    Accumulated gradients have to be summed over the ranks once, before the optimizer needs them:
    all reductions but the last send what will be sent again.

Evidence
    The sequence of sizes of one group's all-reduces (or reduce-scatters) between two kernels of the
    optimizer is the same few in a row, two times or more, and all of them are launched by backward
    work, where the recording tells who launches; tensor parallelism reduces in forward as well. The
    gain is a replay without all but the last round.

Threshold
    Two rounds or more in each of two steps, one mebibyte a round (DDP's smallest bucket), and 5 %
    of the window in cost or gain.

Fix
    DDP: `with model.no_sync():` around all micro-steps but the last. FSDP2:
    set_requires_gradient_sync(False); Accelerate: accelerator.accumulate(model); Lightning and
    DeepSpeed do it by themselves, if the accumulation is theirs.

False positives
    FSDP and ZeRO-2/3 that reduce each micro-step to keep gradients sharded trade it for memory.

References
    PyTorch documentation, DistributedDataParallel.no_sync; Hugging Face Accelerate, "Gradient
    synchronization".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.intervals import measure_cover
from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import match_names
from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_pct
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, Loss, keep_notable, make_finding
from sightline.replay.gains import sum_windows
from sightline.replay.replay import remove_ops
from sightline.timeline.classes import COMPUTE, list_class
from sightline.timeline.communication import SMALL_BYTES, list_communication
from sightline.timeline.host_ranges import find_host_ancestor, list_host_names

RULE = Rule("reduced-each-micro-step", "Gradients reduced in every micro-step")

_DEVICE = ["rank", "device_id"]
_REDUCES = r"(?i)all_?reduce|reduce_?scatter"
# ATen's foreach and fused optimizers, Apex' and DeepSpeed's (multi_tensor_apply, adam, lamb).
_OPTIMIZER = r"(?i)multi_tensor_apply|adam|lamb|(?:^|[^a-z])sgd|adagrad|rmsprop"
_BACKWARD = r"^autograd::engine::evaluate_function|Backward\d*$"
_LEAST_STEPS = 2


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("collectives"):
        return
    backward = _list_backward(run)
    rounds = _list_rounds(run, backward)
    early = rounds.filter("is_early")
    if early.is_empty() or early.get_column("step").n_unique() < _LEAST_STEPS:
        return
    cost = _measure_exposed(run, early)
    ids = early.get_column("device_op_id")
    size = sum_column(early, "size") / max(early.get_column("rank").n_unique(), 1)
    times = find_largest(rounds, "rounds")
    found = make_finding(
        run,
        RULE,
        f"{format_pct(100 * sum_column(cost, 'ns') / sum_windows(run))} of the window reduces "
        f"gradients that are reduced again: in each step of the optimizer {times} times.",
        Loss(
            sum_column(cost, "ns"), find_largest(cost, "ns"), lambda nodes: remove_ops(nodes, ids)
        ),
        Evidence(
            [
                f"{times} rounds of the same sizes between two steps of the optimizer, "
                f"{format_bytes(int(size))} a rank in all but the last ones",
                "all of them launched by backward work"
                if backward.len()
                else "who launches them was not recorded",
            ],
            rows=early.select(*_DEVICE, "device_op_id", "start_ns", "end_ns").head(5).to_dicts(),
            where={"ranks": early.get_column("rank").unique().sort().to_list()},
        ),
        Advice(
            fix=choose_fix(
                run,
                "sum locally, and reduce once for all micro-steps of a step",
                training="sum locally until the last micro-step:  with model.no_sync():  in DDP, "
                "set_requires_gradient_sync(False) in FSDP2, accelerator.accumulate(model) in "
                "Accelerate",
            ),
            verify="sightline stats comm_exposure AFTER: transfer_ns",
            cause="gradients are accumulated, and each micro-step's backward reduces them",
            sources=("Li et al., PyTorch Distributed (2020): gradient accumulation",),
        ),
        confidence="high" if backward.len() else "medium",
    )
    yield from keep_notable(run, found)


def _list_backward(run: Run) -> pl.Series:
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
