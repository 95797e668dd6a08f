"""Which layers does a step of the model have, and how long does each take?

Kernels that graphs replay carry no operator. But a model is a stack of equal layers: the kernels of
a step come back as often as it has layers, and that number, with the place of each layer, is found
from their order. Of each phase one step is shown: the one of median length among those with as many
kernels as most have. A layer begins with the first kernel that runs once in it (a norm, which runs
twice, may stand in the layer before its own). Rows without a layer are what runs before the first
and behind the last.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.subjects.serving import kernel_parts as parts
from sightline.subjects.serving.layers import number_layers
from sightline.timeline.engine_steps import list_step_work
from sightline.timeline.kernel_kinds import PRODUCT

_PARTS = {
    "attention_ns": (parts.ATTENTION,),
    "product_ns": (parts.QKV, parts.OUTPUT, parts.MLP, parts.VOCABULARY, PRODUCT),
    "experts_ns": (parts.EXPERTS,),
    "routing_ns": (parts.ROUTING,),
    "norm_ns": (parts.NORM,),
    "rope_ns": (parts.ROPE,),
    "cache_ns": (parts.CACHE,),
    "quantization_ns": (parts.QUANTIZATION,),
    "sampling_ns": (parts.SAMPLING,),
    "communication_ns": (parts.COMMUNICATION,),
}

ANALYSIS = Analysis(
    "model_layers",
    "Which layers does a step of the model have, and how long does each take?",
    (
        RANK,
        text("phase", "phase of the step"),
        number("step", "the step that is shown", required=True),
        number("layers", "layers of the step"),
        number("layer", "number of the layer, from 0; null before the first and after the last"),
        number("kernels", "kernels of the layer"),
        time("start_ns", "start of its first kernel"),
        time("end_ns", "end of its last kernel"),
        duration("kernel_ns", "sum of its kernels' times"),
        duration("attention_ns", "of that: attention"),
        duration("product_ns", "of that: matrix products, without those of experts"),
        duration("experts_ns", "of that: experts"),
        duration("routing_ns", "of that: choosing experts"),
        duration("norm_ns", "of that: normalization"),
        duration("rope_ns", "of that: rotary position embedding"),
        duration("cache_ns", "of that: writing keys and values into their cache"),
        duration("quantization_ns", "of that: quantizing, and the reverse"),
        duration("sampling_ns", "of that: sampling"),
        duration("communication_ns", "of that: communication"),
    ),
    needs=("device_ops",),
    notes=("Where fewer than three kernels agree on a number of layers, layers is null.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank, phase and layer, in order of time. Raises MissingDataError."""
    steps = run.ask("engine_steps")
    work = list_step_work(run).filter(pl.col("kind") == "kernel")
    if work.is_empty():
        raise MissingDataError("no layers", why="no step of the engine has a kernel")
    shown = _choose_steps(steps, work)
    chosen = work.join(shown, on=["rank", "step"]).sort("rank", "step", "start_ns")
    known = pl.concat(
        layered.with_columns(part=parts.name_parts(layered))
        for layered in map(number_layers, chosen.partition_by("rank", "step", maintain_order=True))
    )
    length = pl.col("end_ns") - pl.col("start_ns")
    known = known.with_columns(ns=length)
    # Before the first layer and behind the last are two rows.
    last = pl.col("start_ns").filter(pl.col("layer").is_not_null()).max()
    side = (pl.col("start_ns") > last).over("rank", "step")
    grouped = known.with_columns(side=pl.when(pl.col("layer").is_null()).then(side)).group_by(
        "rank", "phase", "step", "layers", "layer", "side", maintain_order=True
    )
    return (
        grouped.agg(
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            kernels=pl.len().cast(pl.Int64),
            kernel_ns=pl.col("ns").sum(),
            **{
                name: pl.col("ns").filter(pl.col("part").is_in(of)).sum()
                for name, of in _PARTS.items()
            },
        )
        .sort("rank", "step", "start_ns")
        .select(column.name for column in ANALYSIS.columns)
    )


def _choose_steps(steps: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """Of each rank and phase the step of median length, of those with the usual kernels."""
    counts = work.group_by("rank", "step").agg(kernels=pl.len())
    known = steps.select("rank", "step", "phase", "duration_ns").join(counts, on=["rank", "step"])
    usual = pl.col("kernels").mode().max().over("rank", "phase")
    near = (pl.col("duration_ns") - pl.col("duration_ns").median()).abs().over("rank", "phase")
    return (
        known.filter(pl.col("kernels") == usual)
        .sort("rank", near, "step")
        .unique(["rank", "phase"], keep="first", maintain_order=True)
        .select("rank", "step", "phase")
    )
