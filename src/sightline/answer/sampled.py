"""Kernels whose instructions were sampled while the program ran: where their warps waited."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run


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
