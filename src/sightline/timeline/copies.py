"""Which rule speaks for a copy or fill, so that each is one finding's and no two's."""

from __future__ import annotations

import polars as pl

from sightline.algebra.intervals import clip, partition
from sightline.model.run import Run
from sightline.timeline.classes import COMMUNICATION, COMPUTE, COPY, classified

# Up to here a copy from pageable memory is staged at once and its call returns (CUDA Runtime API,
# "API synchronization behavior": transfers of 64 KB or less); it takes no longer than its launch.
SMALL_BYTES = 65_536
H2D, D2H, PAGEABLE = "h2d-bound", "d2h-in-step", "pageable-copies"
SMALL, FILL, OTHER = "many-small-copies", "redundant-memset", "copy-bound"
UNIFIED = "unified-memory-thrashing"
RULES = (H2D, D2H, PAGEABLE, SMALL, FILL, UNIFIED, OTHER)
_BY = ["rank", "device_id"]


def copy_rule() -> pl.Expr:
    """The rule of a copy or fill; null for other operations."""
    up, down = pl.col("copy_kind") == "HtoD", pl.col("copy_kind") == "DtoH"
    return (
        pl.when(~pl.col("kind").is_in(["memcpy", "memset"]))
        .then(None)
        .when(pl.col("kind") == "memset")
        .then(pl.lit(FILL))
        .when(pl.col("copy_kind").str.starts_with("UVM"))
        .then(pl.lit(UNIFIED))
        .when((up | down) & (pl.col("bytes") <= SMALL_BYTES))
        .then(pl.lit(SMALL))
        .when(up & (pl.col("src_kind") == "pageable"))
        .then(pl.lit(PAGEABLE))
        .when(up)
        .then(pl.lit(H2D))
        .when(down)
        .then(pl.lit(D2H))
        .otherwise(pl.lit(OTHER))
    )


def exposed(run: Run) -> pl.DataFrame:
    """Per rank and device, how long each rule's copies ran with nothing more useful beside them."""
    ops = classified(run)
    ops = ops.with_columns(
        class_=pl.when(pl.col("class_") == COPY).then(copy_rule()).otherwise("class_")
    )
    windows = run.ask("windows")
    inside = clip(ops.select(*_BY, "start_ns", "end_ns", "class_"), windows, _BY)
    parts = partition(inside, windows, _BY, (COMPUTE, COMMUNICATION, *RULES))
    return parts.select(*_BY, *(pl.col(f"{rule}_ns").alias(rule) for rule in RULES))
