"""How long each step's sampling keeps the device waiting for the host."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.algebra.lookup import match_names
from sightline.core.model.run import Run
from sightline.timeline.engine_gaps import list_gaps
from sightline.timeline.engine_steps import list_engine_steps

# vLLM: VLLM_CUSTOM_SCOPES_FOR_PROFILING (gpu_model_runner.py), and its sampler's functions; SGLang:
# srt/layers/sampler.py; TensorRT-LLM: NVTX of _torch/pyexecutor/py_executor.py and sampler.py.
SAMPLES = (
    r"^gpu_model_runner: sample$|^_?sample_async$|^apply_logits_processors?$"
    r"|/(?:sampler|logits_processor)\.py\(\d+\): (?:forward|apply|sample)$"
)


def measure_sampling(run: Run) -> pl.DataFrame:
    """One row per rank and step that samples: rank, step, host_ns, gap_ns, in ns.

    `host_ns` is how long the host samples while no device operation runs; where no device is used,
    while no operator runs. `gap_ns` is the part of it that lies between this step and the next.
    """
    return run.once(_measure)


def _measure(run: Run) -> pl.DataFrame:
    host = run.table("host_ops", ["rank", "pid", "tid", "layer", "name", "start_ns", "end_ns"])
    ranges = host.filter(match_names(host, SAMPLES)) if host.height else host
    spans = ranges.sort("rank", "start_ns", -pl.col("end_ns")).with_columns(
        before=pl.col("end_ns").cum_max().shift(1).over("rank", "pid", "tid")
    )
    outer = spans.filter((pl.col("start_ns") >= pl.col("before")).fill_null(value=True))
    if run.rows("device_ops"):
        works = run.table("device_ops", ["rank", "start_ns", "end_ns"])
    else:
        works = host.filter(pl.col("layer") == "op").select("rank", "start_ns", "end_ns")
    worked = measure_cover_between(outer, "start_ns", "end_ns", works, ["rank"])
    gaps = list_gaps(run).select(
        "rank", start_ns="gap_start_ns", end_ns=pl.col("gap_start_ns") + pl.col("gap_ns")
    )
    behind = measure_cover_between(outer, "start_ns", "end_ns", gaps, ["rank"])
    steps = list_engine_steps(run).select("rank", "step", at="host_start_ns").sort("at")
    return (
        outer.select(
            "rank",
            at="start_ns",
            host_ns=pl.col("end_ns") - pl.col("start_ns") - pl.lit(worked),
            gap_ns=pl.lit(behind),
        )
        .sort("at")
        .join_asof(steps, on="at", by="rank", strategy="backward", check_sortedness=False)
        .drop_nulls("step")
        .group_by("rank", "step")
        .agg(pl.col("host_ns", "gap_ns").sum())
        .sort("rank", "step")
    )
