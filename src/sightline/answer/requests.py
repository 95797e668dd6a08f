"""What calls asked of a GPU, where the GPU itself was not recorded."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run

_MOST = 5


def summarize_requests(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Time by purpose, kernels and copies; empty where the GPU's own work was recorded, too."""
    if run.rows("device_ops") or not run.rows("requests"):
        return {"purposes": [], "kernels": [], "copies": []}
    purposes = (
        run.ask("api_calls")
        .group_by("purpose")
        .agg(pl.col("calls", "own_ns", "calls_per_s", "window_pct").sum())
        .sort("own_ns", "purpose", descending=[True, False])
    )
    kernels = (
        run.ask("requested_kernels")
        .group_by("name")
        .agg(
            pl.col("launches", "failed", "launches_per_s").sum(),
            sizes=pl.len().cast(pl.Int64),
            grid=_most_frequent("grid"),
            block=_most_frequent("block"),
        )
        .sort("launches", "name", descending=[True, False])
    )
    copies = (
        run.ask("requested_copies")
        .group_by("kind", "copy_kind", "is_async")
        .agg(pl.col("copies", "failed", "bytes", "call_ns").sum())
        .sort("call_ns", "kind", "copy_kind", descending=[True, False, False])
    )
    return {
        "purposes": purposes.to_dicts(),
        "kernels": kernels.head(_MOST).to_dicts(),
        "copies": copies.head(_MOST).to_dicts(),
    }


def _most_frequent(what: str) -> pl.Expr:
    """The size that most launches had, as text: 7×5×3."""
    text = pl.format("{}×{}×{}", f"{what}_x", f"{what}_y", f"{what}_z")
    return text.sort_by("launches", descending=True).first()
