"""Quantized weights are unpacked by kernels of their own.

Symptom
    A quantized model decodes no faster than the same in bf16.

Why it hurts
    Each step writes the weights out in full and reads them again, for a product that could have
    read the few bits; quantization then saves memory, and costs time.

Evidence
    Kernels of the engine's steps that dequantize (bitsandbytes, AWQ's and GPTQ's older paths,
    GGUF), as far as nothing runs beside them.

Threshold
    5 % of the window (TraceLens agent, 2026-08, of time that a problem takes).

Fix
    A kernel that multiplies quantized weights directly (Marlin, Machete, CUTLASS), or another
    format.

False positives
    Prompts of thousands of tokens: unpacking once for all of them may be faster than a fused
    product. Only steps without prompts count as gain.

References
    Frantar et al. 2024, MARLIN. vLLM, Quantization: supported hardware.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.subjects.serving.findings import list_steps, measure_windows, report_loss
from sightline.timeline.engine_steps import list_step_work

RULE = Rule("dequantization-overhead", "Weights are unpacked by kernels of their own")

# bitsandbytes (csrc/kernels.cu: kDequantizeBlockwise), AWQ (awq_dequantize, dequantize_weights),
# ExLlama and GPTQ (reconstruct_*_kernel), GGUF (dequantize_block_*), TorchAO (dequantize_affine).
UNPACKS = r"(?i)dequantiz(?:e|ation)|^reconstruct_(?:exllama|gptq)"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    steps = list_steps(run)
    if steps is None or not run.rows("device_ops"):
        return
    work = list_step_work(run).filter(pl.col("kind") == "kernel")
    names = work.get_column("name").cast(pl.String)
    unpacks = names.str.contains(UNPACKS)
    mine, others = work.filter(unpacks), work.filter(~unpacks)
    if mine.is_empty():
        return
    hidden = measure_cover_between(mine, "start_ns", "end_ns", others, ["rank", "device_id"])
    alone = (pl.col("end_ns") - pl.col("start_ns") - pl.lit(hidden)).clip(lower_bound=0)
    sums = mine.with_columns(ns=alone).group_by("rank", "step").agg(
        pl.col("ns").sum(), kernels=pl.len().cast(pl.Int64),
        name=pl.col("name").cast(pl.String).first(),
    )  # fmt: skip
    losses = steps.select("rank", "step", "prefill_tokens").join(sums, on=["rank", "step"])
    decodes = pl.col("prefill_tokens").fill_null(0) == 0
    losses = losses.with_columns(
        cost_ns="ns", gain_ns=pl.when(decodes).then("ns").otherwise(0)
    )  # fmt: skip
    cost = int(losses["cost_ns"].sum())
    yield from report_loss(
        run,
        RULE,
        losses,
        f"Kernels that only unpack weights take {format_pct(100 * cost / measure_windows(run)[0])} "
        "of the window.",
        [
            f"{format_several(int(losses['kernels'].sum()), 'kernel')} in "
            f"{format_several(losses.height, 'step')}, {format_ns(cost)} of it exposed",
            f"for example {losses.sort('ns', descending=True).item(0, 'name')[:80]}",
        ],
        verify="sightline stats kernels AFTER: no kernel that dequantizes",
        method="bound: these kernels gone from steps without prompts, the products as fast as now",
    )
