"""Why the warps of each profiled kernel did not issue, by kernel, source line or instruction."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, pct, real, text
from sightline.core.model.declare import Analysis, Param
from sightline.core.model.run import Run
from sightline.core.model.stall_classes import classify_stall
from sightline.diagnosis.stall_advice import WARP_LATENCY
from sightline.errors import MissingDataError, RequestError

_RATIO = "smsp__average_warps_issue_stalled_"
_RATIO_END = "_per_issue_active.ratio"

ANALYSIS = Analysis(
    "stalls",
    "Why did warps not issue?",
    (
        number("kernel_id", "the execution", required=True),
        text("name", "kernel"),
        text(
            "family",
            "counters (cycles per issued instruction), samples (all), or samples_not_issued (only "
            "those taken while the scheduler issued nothing)",
            required=True,
        ),
        text("function", "function, by line and instruction"),
        text("file", "source file, by line and instruction"),
        number("line", "source line, by line and instruction"),
        number("offset", "bytes from the function's start, by instruction"),
        text("opcode", "operation, by instruction"),
        text("reason", "the vendor's name of the reason", required=True),
        text("stall_class", "what kind of wait, in the same words for every vendor"),
        real("value", "cycles per issued instruction (counters) or samples"),
        pct("share_pct", "% of the family's total of the kernel"),
    ),
    needs=("profiled_kernels",),
    params=(Param("by", "kernel", "kernel, line or instruction"),),
    notes=(
        "The three families count the same warps in different ways: they must never be added. "
        "samples_not_issued is a part of samples.",
        "selected is not a stall: the warp issued. not_selected: it was ready, another one issued.",
    ),
)
_KEYS = {
    "kernel": [],
    "line": ["function", "file", "line"],
    "instruction": ["function", "file", "line", "offset", "opcode"],
}


def run(run: Run, by: str) -> pl.DataFrame:
    """One row per kernel, family, place and reason, the largest share first."""
    if by not in _KEYS:
        raise RequestError(f"stalls cannot be listed by '{by}'", why=f"by {', '.join(_KEYS)}")
    names = run.table("profiled_kernels").select("kernel_id", "name")
    parts = [_samples(run, _KEYS[by], "samples"), _samples(run, _KEYS[by], "latency_samples")]
    if by == "kernel":
        parts.insert(0, _counters(run))
    answer = pl.concat(parts, how="diagonal").filter(pl.col("value") > 0)
    if answer.is_empty():
        raise MissingDataError(
            "the stalls cannot be listed",
            why="the recording has neither warp states nor samples",
            hint="Record with  ncu --section WarpStateStats --section SourceCounters  "
            "(or --set full).",
        )
    return (
        answer.join(names, on="kernel_id", how="left")
        .with_columns(
            stall_class=pl.col("reason").map_elements(classify_stall, return_dtype=pl.String),
        )
        .sort("kernel_id", "family", "value", "reason", descending=[False, False, True, False])
    )


def _counters(run: Run) -> pl.DataFrame:
    """Cycles per issued instruction, as a share of all cycles between two issues of a warp."""
    totals = (
        run.scan("kernel_metrics")
        .filter(pl.col("instance_id").is_null() & pl.col("value").is_not_nan())
        .select("kernel_id", "metric", "value")
    )
    whole = totals.filter(pl.col("metric") == WARP_LATENCY).select("kernel_id", whole="value")
    return (
        totals.filter(
            pl.col("metric").str.starts_with(_RATIO) & pl.col("metric").str.ends_with(_RATIO_END)
        )
        .join(whole, on="kernel_id", how="left")
        .select(
            "kernel_id",
            "value",
            family=pl.lit("counters"),
            reason=pl.col("metric").str.strip_prefix(_RATIO).str.strip_suffix(_RATIO_END),
            share_pct=100 * pl.col("value") / pl.col("whole"),
        )
        .collect()
    )


def _samples(run: Run, place: list[str], column: str) -> pl.DataFrame:
    family = "samples" if column == "samples" else "samples_not_issued"
    kept = run.scan("pc_samples").filter(pl.col(column).is_not_null())
    return (
        kept.group_by("kernel_id", *place, "reason")
        .agg(value=pl.col(column).sum().cast(pl.Float64))
        .with_columns(
            family=pl.lit(family),
            share_pct=100 * pl.col("value") / pl.col("value").sum().over("kernel_id"),
        )
        .collect()
    )
