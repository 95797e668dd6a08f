"""Stacks that a recording holds itself: sampled on the CPU, or added up by the profiler."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.flames.call_stacks import list_stack_paths, name_frames
from sightline.flames.stacks import Stacks, merge_stacks
from sightline.timeline.memory_calls import find_memory_calls

# The period of a sample is only known where the recording says; without it, samples are counted.
_SAMPLED = ("samples", "cpu_time_ns")


def stack_samples(run: Run) -> Stacks:
    """Weights samples and, where every sample has one, cpu_time_ns, of CPU samples."""
    rows = run.table("cpu_samples").filter(pl.col("on_cpu").fill_null(value=True))
    rows = rows.with_columns(samples=pl.lit(1, pl.Int64))
    weights = ["samples"]
    if rows.height and not rows.get_column("weight_ns").null_count():
        rows = rows.with_columns(cpu_time_ns="weight_ns")
        weights.append("cpu_time_ns")
    rows = rows.group_by("rank", "pid", "tid", "stack_id").agg(pl.col(weights).sum())
    threads = run.table("threads").unique(["rank", "pid", "tid"])
    rows = rows.join(threads, on=["rank", "pid", "tid"], how="left", nulls_equal=True).with_columns(
        roots=pl.concat_list(
            pl.format("rank {}", "rank"),
            pl.coalesce(
                pl.format("process {} {}", "pid", "process_name"),
                pl.format("process {}", "pid"),
                pl.lit("process of unknown number"),
            ),
            pl.coalesce(
                pl.format("thread {} {}", "tid", "thread_name"),
                pl.format("thread {}", "tid"),
                pl.lit("thread of unknown number"),
            ),
        ),
        root_layers=pl.lit(["run", "process", "thread"]),
        match=pl.lit("exact"),
    )
    return _stacks(run.table("frames"), run.table("stacks"), rows, weights)


def stack_weights(run: Run) -> Stacks:
    """The weights that the recordings give to their stacks, each metric as it is named there."""
    table = run.table("stack_weights")
    metrics = table.get_column("metric").unique().sort().to_list()
    rows = table.group_by("rank", "stack_id", "match").agg(
        pl.col("value").filter(pl.col("metric") == m).sum().alias(m) for m in metrics
    )
    several = rows.get_column("rank").n_unique() > 1
    nothing = pl.lit([], dtype=pl.List(pl.String))
    rows = rows.with_columns(
        roots=pl.concat_list(pl.format("rank {}", "rank")) if several else nothing,
        root_layers=pl.lit(["run"]) if several else nothing,
    )
    return _stacks(run.table("frames"), run.table("stacks"), rows, metrics)


def stack_peak_memory(run: Run) -> Stacks:
    """Weight peak_bytes: what is allocated at the peak of each device's memory, by who did it."""
    rows = run.ask("peak_blocks").with_columns(
        peak_bytes="bytes",
        roots=pl.concat_list(
            pl.format("rank {}", "rank"),
            pl.coalesce(pl.format("GPU {} memory", "device_id"), pl.lit("host memory")),
            pl.col("kind"),
        ),
        root_layers=pl.lit(["run", "note", "note"]),
        match=pl.lit("exact"),
    )
    calls = find_memory_calls(run)
    return _stacks(calls.frames, calls.stacks, rows, ["peak_bytes"])


def _stacks(
    frames: pl.DataFrame, stacks: pl.DataFrame, rows: pl.DataFrame, weights: list[str]
) -> Stacks:
    """Rows with rank, stack_id, roots, root_layers, match and weights, as stacks."""
    frames = name_frames(frames)
    roots = (
        rows.select(layer="root_layers", name="roots")
        .filter(pl.col("name").list.len() > 0)
        .explode("layer", "name")
    )
    named = (
        pl.concat([frames.select("layer", "name"), roots])
        .unique()
        .sort("layer", "name")
        .with_row_index("id")
        .with_columns(pl.col("id").cast(pl.UInt32))
    )
    ids = frames.join(named, on=["layer", "name"]).select("frame_id", "id")
    paths = list_stack_paths(stacks, ids)
    root_ids = (
        rows.with_row_index("_row")
        .select("_row", layer="root_layers", name="roots")
        .filter(pl.col("name").list.len() > 0)
        .explode("layer", "name")
        .join(named, on=["layer", "name"], maintain_order="left")
        .group_by("_row", maintain_order=True)
        .agg(root="id")
    )
    nothing = pl.lit([], dtype=pl.List(pl.UInt32))
    table = (
        rows.with_row_index("_row")
        .join(root_ids, on="_row", how="left")
        .join(paths, on="stack_id", how="left")
        .select(
            *weights,
            "match",
            frames=pl.concat_list(
                pl.col("root").fill_null(nothing), pl.col("path").fill_null(nothing)
            ),
        )
    )
    return merge_stacks(Stacks(named.select(frame_id="id", layer="layer", name="name"), table))
