"""The source lines, or instructions, where each profiled kernel spends its time."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, pct, text
from sightline.core.model.declare import Analysis, Param
from sightline.core.model.run import Run
from sightline.core.model.source_lines import read_source_lines

ANALYSIS = Analysis(
    "hot_lines",
    "Where in the code does each kernel wait?",
    (
        number("kernel_id", "the execution", required=True),
        text("name", "kernel"),
        text("file", "source file; null where the program was built without line information"),
        number("line", "source line; null likewise: the row is then one instruction"),
        text("function", "function"),
        number("offset", "bytes from the function's start, where the row is one instruction"),
        text("opcode", "operation, where the row is one instruction"),
        number("samples", "samples that fell there", "samples"),
        pct("share_pct", "% of the kernel's samples"),
        text("reason", "the reason most often found there, issued warps left out"),
        text("stall_class", "its class"),
        pct("reason_pct", "its share of the line's samples"),
        text("source_text", "the line itself, where the recording carries the source"),
    ),
    needs=("profiled_kernels", "pc_samples"),
    params=(Param("top", 10, "rows per kernel"),),
    notes=("Built without -lineinfo a program has no lines: then instructions are listed.",),
)
_PLACE = ["file", "line", "function", "offset", "opcode"]


def run(run: Run, top: int) -> pl.DataFrame:
    """The `top` places of each kernel, by samples."""
    lined = pl.col("line").is_not_null()
    samples = (
        run.scan("pc_samples")
        .filter(pl.col("samples") > 0)
        .with_columns(offset=pl.when(~lined).then("offset"), opcode=pl.when(~lined).then("opcode"))
        .group_by("kernel_id", *_PLACE, "reason", "stall_class")
        .agg(pl.col("samples").sum())
    )
    per_place = (
        samples.group_by("kernel_id", *_PLACE)
        .agg(total=pl.col("samples").sum())
        .with_columns(share_pct=100 * pl.col("total") / pl.col("total").sum().over("kernel_id"))
    )
    waiting = (
        samples.filter(pl.col("stall_class") != "issuing")
        .sort("samples", "reason", descending=[True, False])
        .group_by("kernel_id", *_PLACE, maintain_order=True)
        .first()
    )
    names = run.scan("profiled_kernels").select("kernel_id", "name")
    answer = (
        per_place.join(waiting, on=["kernel_id", *_PLACE], how="left", nulls_equal=True)
        .join(names, on="kernel_id", how="left")
        .sort("kernel_id", "total", "line", "offset", descending=[False, True, False, False])
        .filter(pl.int_range(pl.len()).over("kernel_id") < top)
        .select(
            "kernel_id",
            "name",
            *_PLACE,
            "share_pct",
            "reason",
            "stall_class",
            samples="total",
            reason_pct=100 * pl.col("samples") / pl.col("total"),
        )
        .collect()
    )
    places = answer.select("file", "line").iter_rows()
    return answer.with_columns(
        source_text=pl.Series(read_source_lines(run, places), dtype=pl.String)
    )
