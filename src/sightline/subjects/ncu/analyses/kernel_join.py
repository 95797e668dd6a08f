"""Profiled kernels in the program they belong to: time in the program × distance to the limit."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.kernel_names import normalize_kernel_name
from sightline.core.model.columns import duration, number, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError

ANALYSIS = Analysis(
    "kernel_join",
    "Which profiled kernel is most worth optimizing, by its time in the program?",
    (
        text("name", "kernel, as the timeline names it, else as the report does"),
        text("grid", "blocks"),
        text("block", "threads of a block"),
        text("match", "both, timeline only or report only", required=True),
        number("launches", "executions in the timeline"),
        number("profiled", "executions in the report"),
        number("paired", "executions that are matched by occurrence"),
        duration("program_ns", "time in the timeline, summed over its executions"),
        pct("program_pct", "% of the time of all kernels of the timeline"),
        duration("profiled_ns", "mean duration under the profiler: clocks locked, caches flushed"),
        pct("limit_pct", "how close it comes to its limit: the higher of the two throughputs"),
        duration("distance_ns", "time in the program × distance to the limit; ranks the rows"),
        text("bound", "compute, memory, balanced, latency or small_grid"),
    ),
    needs=("profiled_kernels", "device_ops"),
    notes=(
        "Kernels are matched by name, grid, block and occurrence, each rank of the timeline "
        "separately. Names are compared without return type, arguments, and casts of template "
        "values.",
        "Times are the timeline's. Executions that were not profiled are judged by the mean of "
        "the profiled ones of the same name, grid and block.",
    ),
)
_KEY = ["key", "grid", "block"]


def run(run: Run) -> pl.DataFrame:
    """One row per name, grid and block; those worth most first, unmatched ones last."""
    timeline, report = _list_timeline(run), _list_profiled(run)
    if timeline.is_empty():
        raise MissingDataError(
            "the kernels cannot be joined",
            why="the timeline has no kernels",
            hint="Give a timeline recording and an ncu report of the same program.",
        )
    pairs = timeline.join(
        report.drop("name"), on=[*_KEY, "occurrence"], how="left", maintain_order="left"
    )
    means = report.group_by(_KEY, maintain_order=True).agg(
        profiled=pl.len(),
        profiled_ns=pl.col("duration_ns").mean().round().cast(pl.Int64),
        mean_limit=pl.col("limit_pct").mean(),
        report_name=pl.col("name").first(),
        bound=pl.col("bound").drop_nulls().mode(maintain_order=True).first(),
    )
    limit = pl.coalesce("limit_pct", "mean_limit")
    joined = (
        pairs.drop("bound")
        .join(means, on=_KEY, how="left", maintain_order="left")
        .group_by(_KEY, maintain_order=True)
        .agg(
            name=pl.col("name").first(),
            launches=pl.len(),
            paired=pl.col("kernel_id").count(),
            program_ns=pl.col("time_ns").sum(),
            limit_pct=(limit * pl.col("time_ns")).sum() / pl.col("time_ns").sum(),
            known=limit.is_not_null().all(),
        )
        .with_columns(limit_pct=pl.when("known").then("limit_pct"))
        .join(means, on=_KEY, how="full", coalesce=True, maintain_order="left_right")
    )
    return (
        joined.with_columns(
            name=pl.coalesce("name", "report_name"),
            limit_pct=pl.coalesce(
                "limit_pct", pl.when(pl.col("launches").is_null()).then("mean_limit")
            ),
            match=pl.when(pl.col("launches").is_null())
            .then(pl.lit("report only"))
            .when(pl.col("profiled").is_null())
            .then(pl.lit("timeline only"))
            .otherwise(pl.lit("both")),
            program_pct=100 * pl.col("program_ns") / pl.col("program_ns").sum(),
            distance_ns=(pl.col("program_ns") * (1 - pl.col("limit_pct") / 100))
            .round()
            .cast(pl.Int64),
        )
        .sort("distance_ns", "program_ns", descending=True, nulls_last=True, maintain_order=True)
        .select([c.name for c in ANALYSIS.columns])
    )


def _list_timeline(run: Run) -> pl.DataFrame:
    return (
        run.scan("device_ops")
        .filter(pl.col("kind") == "kernel")
        .select(
            "rank",
            "device_id",
            "name",
            "start_ns",
            _format_triple("grid"),
            _format_triple("block"),
            time_ns=pl.col("end_ns") - pl.col("start_ns"),
        )
        .sort("rank", "device_id", "start_ns")
        .collect()
        .pipe(_add_keys)
        .with_columns(occurrence=pl.int_range(pl.len()).over("rank", "device_id", *_KEY))
    )


def _list_profiled(run: Run) -> pl.DataFrame:
    light = run.ask("speed_of_light").select(
        "kernel_id",
        limit_pct=pl.max_horizontal("sm_pct", "memory_pct"),
        bound="verdict",
    )
    return (
        run.scan("profiled_kernels")
        .filter(pl.col("kind") == "kernel")
        .select("kernel_id", "name", "duration_ns", _format_triple("grid"), _format_triple("block"))
        .collect()
        .join(light, on="kernel_id", how="left")
        .pipe(_add_keys)
        .with_columns(occurrence=pl.int_range(pl.len()).over(_KEY))
    )


def _add_keys(frame: pl.DataFrame) -> pl.DataFrame:
    """With the comparable name, worked out once for each name."""
    names = frame.get_column("name").drop_nulls().unique().to_list()
    plain = {name: normalize_kernel_name(name) for name in names}
    return frame.with_columns(
        key=pl.col("name").replace_strict(plain, default=None, return_dtype=pl.String)
    )


def _format_triple(what: str) -> pl.Expr:
    return pl.concat_str([f"{what}_{axis}" for axis in "xyz"], separator="×").alias(what)
