"""Calls of GPU libraries by name: how many, how long, and what share of the time they took."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import Texts
from sightline.core.model.columns import RANK, duration, number, pct, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline import api_calls

_LAYERS = ("runtime", "driver", "library")
# CUDA Runtime and Driver API, "Execution Control" and "Memory Management"; HIP's names are alike.
_LAUNCHES = r"^(?:cuda|hip|cu)(?:Ext|Module|Drv)*Launch(?:Cooperative)?Kernel"
_ALLOCATES = r"^(?:cuda|hip|cu)(?:Mem)?(?:Host)?(?:Malloc|Alloc|Free)"

ANALYSIS = Analysis(
    "api_calls",
    "Which calls of GPU libraries did the host make, how long did they take, and for what?",
    (
        RANK,
        text("layer", "runtime, driver or library", required=True),
        text("name", "the function", required=True),
        text("purpose", "launch, copy, wait, allocate, communicate or other", required=True),
        number("calls", "how many"),
        number("failed", "of these, the ones that did not return 0; null where it is not recorded"),
        real("calls_per_s", "calls per second of the window"),
        duration("total_ns", "all calls together"),
        duration("own_ns", "the same without calls of these layers inside them"),
        pct("window_pct", "own_ns, % of the time from the rank's first call to its last one's end"),
        duration("mean_ns", "mean"),
        duration("longest_ns", "the longest"),
    ),
    needs=("host_ops",),
    notes=(
        "Where several threads call at once, their shares add up to more than 100 %.",
        "A launch that takes long waits for room in the GPU's queue.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and function, the one with the most own time first."""
    calls = (
        run.scan("host_ops")
        .filter(pl.col("layer").is_in(_LAYERS))
        .select("host_op_id", "parent_id", "rank", "layer", "name", "return_value", "start_ns",
                "end_ns")
        .with_columns(length=pl.col("end_ns") - pl.col("start_ns"))
        .collect()
    )  # fmt: skip
    inside = calls.group_by(host_op_id="parent_id").agg(inside=pl.col("length").sum())
    calls = calls.join(inside, on="host_op_id", how="left", maintain_order="left")
    window = pl.col("end_ns").max().over("rank") - pl.col("start_ns").min().over("rank")
    summed = (
        calls.with_columns(window=window)
        .group_by("rank", "layer", "name")
        .agg(
            calls=pl.len().cast(pl.Int64),
            failed=pl.when(pl.col("return_value").is_not_null().any()).then(
                (pl.col("return_value") != 0).sum().cast(pl.Int64)
            ),
            total_ns=pl.col("length").sum(),
            own_ns=(pl.col("length") - pl.col("inside").fill_null(0)).sum(),
            mean_ns=pl.col("length").mean().round().cast(pl.Int64),
            longest_ns=pl.col("length").max(),
            window=pl.col("window").first(),
        )
        .sort("rank", "layer", "name")
        .sort("rank", "own_ns", descending=[False, True], maintain_order=True)
    )
    has_window = pl.col("window") > 0
    return summed.with_columns(
        name_purposes(summed.get_column("name")),
        calls_per_s=pl.when(has_window).then(1e9 * pl.col("calls") / pl.col("window")),
        window_pct=pl.when(has_window).then(100 * pl.col("own_ns") / pl.col("window")),
    ).select(column.name for column in ANALYSIS.columns)


def name_purposes(names: pl.Series) -> pl.Series:
    """What each call is for, by its name."""
    texts = Texts(names)
    is_launch = texts.match(_LAUNCHES) | api_calls.launches_graph(texts)
    is_wait = api_calls.synchronizes(texts)
    is_copy = texts.match(r"^(?:cuda|hip|cu)Mem(?:cpy|set)")
    frame = pl.DataFrame(
        {"launch": is_launch, "wait": is_wait, "copy": is_copy,
         "allocate": texts.match(_ALLOCATES), "communicate": texts.match(r"^p?nccl")}
    )  # fmt: skip
    purpose = pl.lit("other")
    for name in reversed(frame.columns):
        purpose = pl.when(name).then(pl.lit(name)).otherwise(purpose)
    return frame.select(purpose=purpose).to_series()
