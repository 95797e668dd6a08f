"""Many small collectives of tensor parallelism take longer than their start needs.

Symptom
    After each layer's products all GPUs wait for a short collective.

Why it hurts
    A token of decode has some kilobytes to exchange twice a layer: how long a collective takes to
    start is what it costs, and no bandwidth helps.

Evidence
    Communication kernels in steps of decode, exposed, and how much longer each takes than a
    one-shot all-reduce.

Threshold
    5 % of the window (TraceLens agent, 2026-08). A one-shot all-reduce takes 4.16 µs: the median of
    vLLM's over four H100 (1,449 of them in hyukjlee/traceMap, 1_h100_1000isl_10osl_32con).

Fix
    The server's own one-shot all-reduce, or fewer GPUs to a model.

False positives
    GPUs without a direct link cannot do it in one shot; waiting for a late rank looks alike.

References
    NVIDIA, NCCL 2.27: symmetric memory. vLLM, csrc/custom_all_reduce.cuh.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.subjects.serving.findings import list_steps, measure_windows, report_loss
from sightline.timeline.classes import COMMUNICATION, COMPUTE, classify_run
from sightline.timeline.engine_steps import DECODE, list_step_work

RULE = Rule("all-reduce-latency-bound", "Small collectives hold up each layer")

ONE_SHOT_NS = 4_160
# What is longer moves bytes or waits for a late rank (ours: 64 tokens of a model of 8,192 channels
# are 1 MB, for which 450 GB/s need 2.3 µs).
LONGEST_NS = 100_000
# Exchanges of experts move tokens, and wait for the busiest: expert-imbalance speaks of them.
_OF_EXPERTS = r"(?i)send_?recv|all_?to_?all|dispatch|combine"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    steps = list_steps(run)
    if steps is None or not run.rows("device_ops"):
        return
    losses = _list_losses(run, steps)
    if losses.is_empty():
        return
    cost = int(losses["cost_ns"].sum())
    share = format_pct(100 * cost / measure_windows(run)[0])
    middle = int(losses["ns"].median() or 0)  # type: ignore[arg-type]
    yield from report_loss(
        run,
        RULE,
        losses,
        f"Small collectives in steps of decode take {share} of the window more than they need.",
        [
            f"{format_several(losses.height, 'collective')}, the median {format_ns(middle)}",
            f"a one-shot all-reduce takes about {format_ns(ONE_SHOT_NS)}",
        ],
        verify="sightline stats kernels AFTER: the collectives' mean",
        method="bound: each collective as short as a one-shot all-reduce over four H100",
    )


def _list_losses(run: Run, steps: pl.DataFrame) -> pl.DataFrame:
    """The small collectives of steps of decode: rank, step, ns, cost_ns and gain_ns.

    Both are what is exposed, as far as it is longer than a one-shot all-reduce.
    """
    classes = classify_run(run).select("device_op_id", "class_")
    decodes = steps.filter(pl.col("phase") == DECODE).select("rank", "step")
    work = list_step_work(run).join(decodes, on=["rank", "step"], how="semi")
    work = work.join(classes, on="device_op_id", how="left", maintain_order="left")
    of_experts = pl.col("name").cast(pl.String).str.contains(_OF_EXPERTS)
    moves = work.filter((pl.col("class_") == COMMUNICATION) & ~of_experts)
    computes = work.filter(pl.col("class_") == COMPUTE)
    hidden = measure_cover_between(moves, "start_ns", "end_ns", computes, ["rank", "device_id"])
    length = pl.col("end_ns") - pl.col("start_ns")
    exposed = (length - pl.lit(hidden)).clip(lower_bound=0)
    excess = pl.min_horizontal(exposed, (length - ONE_SHOT_NS).clip(lower_bound=0))
    return moves.select("rank", "step", ns=length, cost_ns=excess, gain_ns=excess).filter(
        pl.col("ns") <= LONGEST_NS
    )
