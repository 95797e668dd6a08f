"""The optimizer updates one parameter after the other, each with kernels of its own.

Symptom
    Hundreds of short pointwise kernels inside `Optimizer.step`, none of which takes several
    tensors.

Why it hurts
    Each update is five to ten operations per parameter, each a launch: the host needs 5 to 20 µs
    for what the device does in 2. Fused, one kernel updates some hundred parameters, and reads and
    writes each once.

Evidence
    The kernels launched inside each range `Optimizer.step#…`, without those that take lists of
    tensors. The gain is a replay in which one launch per step is left, and of the kernels of each
    parameter as much as the longest takes; the host's time between the other launches is gone
    with them. A bound: what a fused kernel reads at once, the recording does not show.

Threshold
    50 such kernels in a step (a list takes some hundred tensors per launch: ATen,
    MultiTensorApply.cuh), and a cost or gain of over 5 % of the window.

Fix
    fused=True, or foreach=True, in the optimizer of PyTorch; an optimizer of Apex or DeepSpeed; or
    torch.compile around the step.

False positives
    A fused kernel reads more tensors at once than the longest kernel of an update, so that large
    parameters gain less than stated. Custom optimizers have no fused variant; torch.compile
    fuses them.

References
    PyTorch, torch.optim, "foreach and fused implementations".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.algebra.lookup import keep_rows
from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import MAX_ROWS, Advice, Evidence, Loss, keep_notable, make_finding
from sightline.replay.gains import sum_windows
from sightline.replay.replay import (
    remove_ops,
    scale_ops,
    select_calls_of,
    select_ops,
    shorten_thinking,
)
from sightline.subjects.kernels.rules._optimizer import list_optimizer_loops
from sightline.timeline.host_ranges import measure_in_ranges

RULE = Rule("unfused-optimizer", "The optimizer launches kernels per parameter")


_STEP = ("host_op_id", "rank", "pid", "tid", "name", "start_ns", "end_ns")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not (run.rows("device_ops") and run.rows("host_ops")):
        return
    loops = list_optimizer_loops(run)
    if loops.is_empty():
        return
    left = _measure_what_stays(loops)
    host = run.table("host_ops", _STEP)
    steps = keep_rows(host, host.get_column("host_op_id").is_in(loops["step_id"].implode()))
    lost = _measure_lost(run, loops, left)
    cost = sum_column(lost, "lost")
    updates = loops.select("step_id", "parameter").n_unique()
    per_step = loops.height / loops.get_column("step_id").n_unique()
    found = make_finding(
        run,
        RULE,
        "The optimizer updates one parameter after the other, each with kernels of its own. On the "
        f"GPU that takes {format_pct(100 * cost / sum_windows(run))} of the window more than fused "
        "kernels would.",
        Loss(
            cost_ns=cost,
            bound_ns=find_largest(lost, "lost"),
            change=lambda nodes: _fuse(nodes, loops, left, steps),
        ),
        Evidence(
            [
                f"{format_several(round(per_step), 'kernel')} in each optimizer step, "
                f"{loops.height / updates:.1f} for each parameter; the device needs "
                f"{format_ns(sum_column(loops, 'length'))} for all",
                f"the host is in these steps for {format_ns(_sum_length(steps))}",
            ],
            rows=_list_steps(loops, steps),
            where={
                "range": steps.item(0, "name"),
                "kernel": loops.item(0, "name"),
                "ranks": loops.get_column("rank").unique().sort().to_list(),
            },
            calls=loops.select(host_op_id="launch_id", ns="length"),
        ),
        Advice(
            fix="pass fused=True (or foreach=True) to the optimizer, or compile its step",
            verify="sightline stats kernels AFTER: instances of these kernels",
            cause="the optimizer loops over its parameters",
            sources=("PyTorch: torch.optim",),
        ),
        confidence="medium",
        is_bound=True,
    )
    yield from keep_notable(run, found)


def _measure_what_stays(loops: pl.DataFrame) -> pl.DataFrame:
    """Per step: the kernel that stays, and what all parameters leave for it to do, `left_ns`."""
    longest = loops.group_by("step_id", "parameter").agg(pl.col("length").max())
    return (
        loops.sort("length", "device_op_id", descending=[True, False])
        .unique("step_id", keep="first", maintain_order=True)
        .select("step_id", "device_op_id", "length")
        .join(longest.group_by("step_id").agg(left_ns=pl.col("length").sum()), on="step_id")
    )


def _measure_lost(run: Run, loops: pl.DataFrame, left: pl.DataFrame) -> pl.DataFrame:
    """Per device: the kernels' time less what stays, and the idle time between them.

    Idle counts from the first to the last kernel of a step; the gain is the replay's.
    """
    by = ["rank", "device_id"]
    spans = loops.group_by(*by, "step_id").agg(
        since=pl.col("start_ns").min(),
        until=pl.col("end_ns").max(),
        work=pl.col("length").sum(),
    )
    ops = run.table("device_ops", [*by, "start_ns", "end_ns"])
    busy = measure_cover_between(spans, "since", "until", ops, by)
    idle = pl.col("until") - pl.col("since") - pl.lit(busy)
    return (
        spans.with_columns(idle=idle)
        .join(left.select("step_id", "left_ns"), on="step_id")
        .group_by(by)
        .agg(lost=(pl.col("idle") + pl.col("work") - pl.col("left_ns")).clip(0).sum())
    )


def _fuse(
    nodes: pl.DataFrame, loops: pl.DataFrame, left: pl.DataFrame, steps: pl.DataFrame
) -> pl.DataFrame:
    """The nodes with one launch a step, whose kernel does what all parameters leave."""
    kept = left.select(ref_id="device_op_id", factor=pl.col("left_ns") / pl.col("length").clip(1))
    gone = loops.get_column("device_op_id")
    gone = gone.filter(~gone.is_in(kept.get_column("ref_id").implode()))
    thought = measure_in_ranges(nodes, steps, ["rank", "pid", "tid"])
    before = select_calls_of(nodes, select_ops(nodes, gone))
    fewer = shorten_thinking(remove_ops(nodes, gone), thought * before.cast(pl.Int64))
    return scale_ops(fewer, kept)


def _sum_length(ranges: pl.DataFrame) -> int:
    return int(ranges.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item() or 0)


def _list_steps(loops: pl.DataFrame, steps: pl.DataFrame) -> list[dict[str, object]]:
    """The steps with the most kernels."""
    most = (
        loops.group_by("step_id", "rank", "device_id")
        .agg(kernels=pl.len(), start_ns=pl.col("start_ns").min(), end_ns=pl.col("end_ns").max())
        .sort("kernels", "step_id", descending=[True, False])
        .head(MAX_ROWS)
    )
    return most.rename({"step_id": "host_op_id"}).to_dicts()
