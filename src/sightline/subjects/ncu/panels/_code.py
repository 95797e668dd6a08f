"""A profiled kernel's code with what was measured of it: source lines, instructions."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import Column, number, pct, text
from sightline.core.model.run import Run

Listing = tuple[pl.DataFrame, tuple[Column, ...]]

_SHARES: tuple[Column, ...] = (
    number("samples", "samples that fell there"),
    pct("share_pct", "% of the kernel's samples"),
    number("not_issued", "those of them taken while the scheduler issued nothing"),
    pct("not_issued_pct", "% of the kernel's samples without an issue"),
    text("reason", "the stall that is most often found there"),
)
# Nsight Compute's metric of executed instructions, by code address.
_EXECUTED = "inst_executed"


def list_source_lines(run: Run, kernel: int) -> Listing | None:
    """All lines of the files that have samples, or those with samples where texts are missing.

    None where the program was built without line information, or nothing was sampled.
    """
    samples = _samples(run, kernel).drop_nulls(["file", "line"])
    if samples.is_empty():
        return None
    by_line = _add_up(samples, ["file", "line"])
    texts = run.table("source_files").drop_nulls("content")
    texts = texts.filter(pl.col("file").is_in(by_line.get_column("file").unique().implode()))
    lines = texts.select("file", source=pl.col("content").str.split("\n")).explode("source")
    lines = lines.with_columns(line=pl.int_range(1, pl.len() + 1).over("file"))
    found = lines.join(by_line, on=["file", "line"], how="full", coalesce=True)
    found = found.sort("file", "line").with_columns(
        pl.col("file").str.split("/").list.last().alias("file")
    )
    return found, (
        text("file", "source file"),
        number("line", "line"),
        text("source", "its text"),
        *_SHARES,
    )


def list_instructions(run: Run, kernel: int) -> Listing | None:
    """The kernel's instructions in the order of the code; None where none is known."""
    samples = _add_up(_samples(run, kernel), ["function", "offset"])
    code = run.table("instructions").filter(kernel_id=kernel)
    if code.is_empty():
        # Without the code only what was sampled is known.
        code = (
            run.table("pc_samples")
            .filter(kernel_id=kernel)
            .unique(["function", "offset"], keep="first", maintain_order=True)
            .with_columns(address=pl.lit(None, pl.Int64))
        )
    if code.is_empty():
        return None
    executed = (
        run.scan("kernel_metrics")
        .filter(
            pl.col("kernel_id") == kernel,
            pl.col("metric") == _EXECUTED,
            pl.col("instance_id").is_not_null(),
        )
        .select(address="instance_id", executed=pl.col("value").cast(pl.Int64, strict=False))
        .unique("address", keep="first", maintain_order=True)
        .collect()
    )
    found = (
        code.select("address", "function", "offset", "opcode", "file", "line")
        .join(samples, on=["function", "offset"], how="left", nulls_equal=True)
        .join(executed, on="address", how="left")
        .sort("function", "offset")
        .with_columns(
            executed_pct=100 * pl.col("executed") / pl.col("executed").sum(),
            place=pl.when(pl.col("line").is_not_null()).then(
                pl.format("{}:{}", pl.col("file").str.split("/").list.last(), "line")
            ),
            at=pl.col("offset").map_elements(lambda n: f"0x{n:04x}", return_dtype=pl.String),
        )
    )
    several = found.get_column("function").n_unique() > 1
    columns = (
        *((text("function", "function"),) if several else ()),
        text("at", "bytes from the function's start"),
        text("opcode", "operation; operands are not in the recording's tables"),
        text("place", "source file and line"),
        number("executed", "how often it was executed, once per warp"),
        pct("executed_pct", "% of the executed instructions"),
        *_SHARES,
    )
    return found, columns


def _samples(run: Run, kernel: int) -> pl.DataFrame:
    return run.table("pc_samples").filter(kernel_id=kernel)


def _add_up(samples: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Samples by place, with the reason that is most frequent there, issued warps left out."""
    totals = samples.group_by(by, maintain_order=True).agg(
        pl.col("samples").sum(), not_issued=pl.col("latency_samples").sum()
    )
    reasons = (
        samples.filter(pl.col("stall_class") != "issuing")
        .group_by(*by, "reason", maintain_order=True)
        .agg(pl.col("samples").sum())
        .sort("samples", "reason", descending=[True, False], nulls_last=True)
        .unique(by, keep="first", maintain_order=True)
        .select(*by, "reason")
    )
    return totals.join(reasons, on=by, how="left", nulls_equal=True).with_columns(
        share_pct=100 * pl.col("samples") / pl.col("samples").sum(),
        not_issued_pct=100 * pl.col("not_issued") / pl.col("not_issued").sum(),
    )
