"""Kernels whose instructions were sampled while the program ran: where their warps waited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.kernel_labels import label_kernels
from sightline.model.run import Run
from sightline.text import fit_text
from sightline.units import format_count, format_pct

TOP_KERNELS = 10
_WAITS = 38  # the reason and the line, behind the name


def is_only_sampled(run: Run) -> bool:
    """Whether its kernels were sampled and none was profiled: there are no counters."""
    return bool(run.rows("pc_samples")) and not run.rows("kernel_metrics")


def list_sampled_kernels(run: Run) -> list[dict[str, Any]]:
    """One row per kernel name, the most samples first.

    Keys: name, samples, share_pct (of all kernels' samples), issuing_pct (samples in which the warp
    issued), reason and reason_pct (what it waited for most, of the kernel's samples), file and line
    (where most samples fell; null without line information).
    """
    names = run.table("profiled_kernels").select("kernel_id", "name")
    samples = run.table("pc_samples").join(names, on="kernel_id").filter(pl.col("samples") > 0)
    total = pl.col("samples").sum()
    is_issuing = pl.col("stall_class") == "issuing"
    kernels = samples.group_by("name").agg(
        samples=total, issuing=pl.col("samples").filter(is_issuing).sum()
    )
    reasons = _find_most(samples.filter(~is_issuing), ["reason"], "reason_samples")
    places = _find_most(samples.filter(pl.col("line").is_not_null()), ["file", "line"], "_most")
    return (
        kernels.join(reasons, on="name", how="left", nulls_equal=True)
        .join(places.drop("_most"), on="name", how="left", nulls_equal=True)
        .sort("samples", "name", descending=[True, False])
        .select(
            "name",
            "samples",
            "reason",
            "file",
            "line",
            share_pct=100 * pl.col("samples") / total,
            issuing_pct=100 * pl.col("issuing") / pl.col("samples"),
            reason_pct=100 * pl.col("reason_samples") / pl.col("samples"),
        )
        .to_dicts()
    )


def _find_most(samples: pl.DataFrame, by: list[str], count: str) -> pl.DataFrame:
    """Of each kernel name what most of its samples have."""
    return (
        samples.group_by("name", *by)
        .agg(pl.col("samples").sum().alias(count))
        .sort(count, *by, descending=[True, *[False] * len(by)])
        .unique("name", keep="first", maintain_order=True)
    )


def print_sampled(rows: list[dict[str, Any]], width: int) -> Iterator[str]:
    """The lines about sampled kernels; none if there are none."""
    if not rows:
        return
    count = sum(row["samples"] for row in rows)
    yield f"Sampled kernels · {format_count(count)} samples of their instructions"
    yield ""
    room = width - 26 - _WAITS
    yield f"{'Kernel':<{room}}{'samples':>10}{'share':>8}{'issuing':>9}  waits mostly for, at"
    labels = label_kernels(row["name"] for row in rows[:TOP_KERNELS] if row["name"])
    for row in rows[:TOP_KERNELS]:
        name = fit_text(labels.get(row["name"], "unnamed"), room - 1)
        waits = "—"
        if row["reason"] is not None:
            waits = f"{row['reason']} {format_pct(row['reason_pct'])}"
        if row["line"] is not None:
            waits += f", {row['file'].rsplit('/', 1)[-1]}:{row['line']}"
        yield (
            f"{name:<{room}}{format_count(row['samples']):>10}{format_pct(row['share_pct']):>8}"
            f"{format_pct(row['issuing_pct']):>9}  {fit_text(waits, _WAITS - 2)}"
        ).rstrip()
    if len(rows) > TOP_KERNELS:
        yield f"… and {len(rows) - TOP_KERNELS} more: sightline stats stalls"
    yield "Lines and instructions: sightline stats hot_lines · share: of all samples"
    yield "How near the compute roof they came, at least and at most: sightline roofline"
