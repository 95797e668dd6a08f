"""Speculative decoding: what the draft takes in each step, and how many tokens a step brings."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.algebra.lookup import match_names
from sightline.core.model.run import Run
from sightline.subjects.serving.load import find_worst
from sightline.timeline.engine_gaps import list_request_spans
from sightline.timeline.engine_steps import list_step_work

# vLLM: VLLM_CUSTOM_SCOPES_FOR_PROFILING (gpu_model_runner.py), and its proposers' functions
# (vllm/v1/spec_decode); SGLang's drafts are steps of their own (step[DRAFT]).
DRAFTS = r"^gpu_model_runner: draft$|spec_decode/\w+\.py\(\d+\): propose$"
VERIFY, DRAFT = "verify", "draft"


def measure_drafts(run: Run, steps: pl.DataFrame) -> pl.DataFrame | None:
    """The steps that verify, with cycle_ns and draft_ns (ns, of it); None where none is known.

    `cycle_ns` is the step with the gaps before it in which requests were there, and the draft's own
    step before it; `draft_ns` is how long the device works for the draft.
    """
    verifies = steps.filter(
        (pl.col("phase") == VERIFY) & (pl.col("decode_tokens") > pl.col("decode_requests"))
    )
    if verifies.is_empty() or not run.rows("device_ops"):
        return None
    host = run.table("host_ops", ["rank", "name", "start_ns", "end_ns"])
    ranges = host.filter(match_names(host, DRAFTS)).select("rank", "start_ns", "end_ns")
    work = list_step_work(run).select("rank", "step", "launch_ns", "start_ns", "end_ns")
    at = work.with_columns(after=pl.col("launch_ns") + 1)
    inside = measure_cover_between(at, "launch_ns", "after", ranges, ["rank"])
    drafts = work.with_columns(inside=inside).filter(pl.col("inside") > 0)
    sums = drafts.group_by("rank", "step").agg(
        draft_ns=(pl.col("end_ns") - pl.col("start_ns")).sum()
    )
    apart = steps.with_columns(
        before=pl.when(pl.col("phase").shift(1).over("rank") == DRAFT)
        .then(pl.col("duration_ns").shift(1).over("rank"))
        .otherwise(0)
    ).select("rank", "step", "before")
    known = verifies.join(sums, on=["rank", "step"], how="left").join(apart, on=["rank", "step"])
    known = known.with_columns(
        draft_ns=pl.col("draft_ns").fill_null(0) + pl.col("before").fill_null(0)
    )
    known = known.with_columns(
        cycle_ns=pl.col("duration_ns") + pl.col("scheduler_ns") + pl.col("in_step_ns")
        + pl.col("before").fill_null(0)
    )  # fmt: skip
    return known if int(known["draft_ns"].sum()) else None


def measure_gained(run: Run, verifies: pl.DataFrame) -> float | None:
    """Tokens that a step brings to each request that it verifies; None where nobody counted.

    By the client's tokens (each request's first one comes with its prompt) where its requests are
    those of the steps, else by the server's count of accepted tokens and of drafts.
    """
    first = verifies.filter(pl.col("rank") == verifies["rank"].min())
    checked = int(first["decode_requests"].sum())
    if list_request_spans(run).height and checked:
        served = run.table("served_requests", ["output_tokens"]).drop_nulls()
        return float(served["output_tokens"].sum() - served.height) / checked
    accepted, drafts = find_worst(run, "accepted", "total"), find_worst(run, "drafts", "total")
    if accepted is not None and drafts:
        return 1.0 + accepted / drafts
    length = find_worst(run, "accepted_length", "mean")
    return length or None
