"""Experts of one rank have more tokens than those of the others.

Symptom
    The GPUs of an expert-parallel model wait for one of them in each layer.

Why it hurts
    Behind its experts each layer exchanges tokens between all ranks: all wait for the one whose
    experts took longest.

Evidence
    Kernels of experts (grouped products) of the same step and layer on all ranks. What the others
    wait is the cost; the gain is how much longer the slowest took than all of them in the mean.

Threshold
    5 % of the window (TraceLens agent, 2026-08, of time that a problem takes).

Fix
    The server's balancing of experts: redundant experts and a placement by load.

False positives
    One rank's GPU may be slower in everything: `slow-rank` says so. A single rank's recording
    cannot show it.

References
    DeepSeek, EPLB. vLLM, Expert Parallel Deployment. SGLang, Expert Parallelism.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.subjects.serving.findings import list_steps, measure_windows, report_loss
from sightline.timeline.engine_steps import list_step_work

RULE = Rule("expert-imbalance", "One rank's experts have more work", explains_lateness=True)

# vLLM (fused_moe_kernel, moe_wna16), SGLang (fused_moe, grouped gemm), DeepGEMM
# (m_grouped_gemm_*), TensorRT-LLM and CUTLASS (MoeGemm, grouped), AITER and CK (moe_stage, ck_moe).
EXPERTS = (
    r"(?i)fused_moe|moe_(?:wna16|gemm|stage|mm)|m_grouped_(?:gemm|fp8)|grouped_?gemm|moegemm|ck_moe"
    r"|batched_triton_kernel"
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    steps = list_steps(run)
    if steps is None or steps["rank"].n_unique() < 2 or not run.rows("device_ops"):
        return
    calls = _list_calls(run)
    if calls.is_empty():
        return
    mean = pl.col("ns").mean().over("step", "layer")
    largest = pl.col("ns").max().over("step", "layer")
    losses = (
        calls.with_columns(cost_ns=largest - pl.col("ns"), gain=largest - mean)
        .group_by("rank", "step")
        .agg(pl.col("cost_ns").sum(), gain_ns=pl.col("gain").sum().round().cast(pl.Int64))
    )
    loads = calls.group_by("rank").agg(pl.col("ns").sum()).sort("ns", descending=True)
    worst, most = loads.row(0)
    usual = float(loads["ns"].mean())  # type: ignore[arg-type]
    lines = [
        f"rank {worst} computes experts for {format_ns(most)}, the ranks on average for "
        f"{format_ns(round(usual))}",
        f"{format_several(calls.height, 'kernel')} of experts in "
        f"{format_several(calls['step'].n_unique(), 'step')} on "
        f"{format_several(loads.height, 'rank')}",
    ]
    cost = int(losses["cost_ns"].sum())
    yield from report_loss(
        run,
        RULE,
        losses,
        "GPUs wait for the experts of the busiest for "
        f"{format_pct(100 * cost / measure_windows(run)[0])} of the window.",
        lines,
        verify="sightline stats kernels AFTER: kernels of experts take as long on each rank",
        method="bound: in each layer all experts take as long as they do on average",
    )


def _list_calls(run: Run) -> pl.DataFrame:
    """Kernels of experts: rank, step, layer (their number in the step) and ns, of even steps.

    Only steps in which all ranks have as many are compared.
    """
    work = list_step_work(run).filter(pl.col("kind") == "kernel")
    names = work.get_column("name").cast(pl.String)
    mine = work.filter(names.str.contains(EXPERTS)).sort("rank", "step", "start_ns")
    ranks = mine["rank"].n_unique()
    calls = mine.select(
        "rank",
        "step",
        layer=pl.int_range(pl.len(), dtype=pl.Int64).over("rank", "step"),
        ns=pl.col("end_ns") - pl.col("start_ns"),
    )
    there = pl.len().over("step", "layer")
    even = (there == ranks).all().over("step")
    return calls.filter(even) if ranks > 1 else calls.clear()
