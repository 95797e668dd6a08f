"""Runs of a profiler whose sums stand in one text, one below the other."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, RECORDING, duration, flag, number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.sums import select_sums

ANALYSIS = Analysis(
    "summed_runs",
    "Which runs are in a text of sums, and what did a GPU do in each?",
    (
        RANK,
        RECORDING,
        number("part", "its place in the text, from 0; empty where there is one"),
        text("command", "what was run, without its folder and arguments"),
        flag("judged", "findings are about it"),
        duration("kernel_ns", "all kernels together"),
        duration("copy_ns", "all copies together"),
        duration("fill_ns", "all memsets together"),
        duration("call_ns", "all calls of CUDA together"),
        number("kernels", "how many were launched"),
        text("longest", "the kernel that takes most of it"),
    ),
    needs=("call_sums",),
    notes=("Runs are never added up: each is an execution of its own.",),
)
_BY = ["rank", "recording_id", "part"]
_APIS = ("runtime", "driver")


def run(run: Run) -> pl.DataFrame:
    """One row per run, in the text's order."""
    sums = run.table("call_sums").with_columns(
        pl.col("category", "name", "layer", "kind").cast(pl.String)
    )
    judged = select_sums(run).select(_BY).unique().with_columns(judged=True)
    ns = pl.col("duration_ns")
    is_kernel = pl.col("category") == "kernel"
    found = sums.group_by(_BY, maintain_order=True).agg(
        pl.col("command").cast(pl.String).drop_nulls().first(),
        kernel_ns=ns.filter(is_kernel).sum(),
        copy_ns=ns.filter(pl.col("category") == "memcpy").sum(),
        fill_ns=ns.filter(pl.col("category") == "memset").sum(),
        call_ns=ns.filter((pl.col("kind") == "host") & pl.col("layer").is_in(_APIS)).sum(),
        kernels=pl.col("calls").filter(is_kernel).sum(),
        longest=pl.col("name").filter(is_kernel).sort_by(ns.filter(is_kernel)).last(),
    )
    marked = found.join(judged, on=_BY, how="left", nulls_equal=True, maintain_order="left")
    return marked.with_columns(pl.col("judged").fill_null(value=False)).select(
        column.name for column in ANALYSIS.columns
    )
