"""Stacks inside kernels: source line, instruction and stall of a kernel profiler's samples."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.core.model.stall_classes import classify_stall
from sightline.flames.stacks import Stacks, merge_stacks

# The layers of one sample below its kernel, in order.
INSIDE = ("gpu_file", "gpu_line", "instruction", "stall_class", "stall_reason")


def stack_stalls(run: Run) -> Stacks:
    """Weights samples and latency_samples of every profiled kernel.

    `latency_samples` are those of `samples` that were taken while the scheduler issued nothing:
    a part of them, so the two are separate weights and never added.
    """
    several = run.table("recordings").height > 1
    kernels = run.table("profiled_kernels").select(
        "kernel_id",
        outer=pl.concat_list(
            *([pl.format("rank {}", "rank")] if several else []),
            pl.coalesce("name", "function", pl.lit("[unknown kernel]")),
        ),
        phases=pl.col("nvtx").str.split(" / "),
        # Leaf first in the recording.
        callers=pl.col("stack").str.split(";").list.reverse(),
    )
    samples = place_stalls(run).join(kernels, on="kernel_id")
    nothing = pl.lit([], dtype=pl.List(pl.String))
    phases, callers = pl.col("phases").fill_null(nothing), pl.col("callers").fill_null(nothing)
    root = pl.col("outer").list.head(1) if several else nothing
    rows = samples.select(
        "samples",
        "latency_samples",
        names=pl.concat_list(root, phases, callers, pl.col("outer").list.tail(1), "names"),
        layers=pl.concat_list(
            pl.lit(["run"]) if several else nothing,
            phases.list.eval(pl.lit("phase")),
            callers.list.eval(pl.lit("native")),
            pl.lit(["kernel"]),
            "layers",
        ),
    )
    return _stacks(rows)


def place_stalls(run: Run) -> pl.DataFrame:
    """Each sample's frames below its kernel: kernel_id, layers, names, samples, latency_samples.

    A layer that the recording does not have is left out.
    """
    samples = run.table("pc_samples")
    reasons = samples.get_column("reason").unique()
    classes = {r: classify_stall(r) for r in reasons.to_list()}
    columns = samples.select(
        "kernel_id",
        pl.col("samples").fill_null(0),
        pl.col("latency_samples").fill_null(0),
        gpu_file="file",
        gpu_line=pl.format("{}:{}", pl.col("file").str.split("/").list.last(), "line"),
        instruction=pl.coalesce(
            pl.format("+{} {}", _hex("offset"), "opcode"), pl.format("+{}", _hex("offset"))
        ),
        stall_class=pl.col("reason").replace_strict(classes, return_dtype=pl.String),
        stall_reason="reason",
    )
    present = [pl.col(c).is_not_null() for c in INSIDE]
    return columns.select(
        "kernel_id",
        "samples",
        "latency_samples",
        names=pl.concat_list(*INSIDE).list.drop_nulls(),
        layers=pl.concat_list(
            pl.when(p).then(pl.lit(c)) for p, c in zip(present, INSIDE, strict=True)
        ).list.drop_nulls(),
    )


def _hex(column: str) -> pl.Expr:
    """An offset as the tools print it, 0x70."""
    return pl.col(column).map_elements(lambda n: f"0x{n:x}", return_dtype=pl.String)


def _stacks(rows: pl.DataFrame) -> Stacks:
    """Rows with layers, names, samples and latency_samples, as stacks that are all exact."""
    rows = rows.with_row_index("_row")
    long = rows.select("_row", layer="layers", name="names").explode("layer", "name")
    frames = (
        long.select("layer", "name")
        .unique()
        .sort("layer", "name")
        .with_row_index("frame_id")
        .with_columns(pl.col("frame_id").cast(pl.UInt32))
    )
    paths = (
        long.join(frames, on=["layer", "name"], maintain_order="left")
        .group_by("_row", maintain_order=True)
        .agg(frames="frame_id")
    )
    table = rows.join(paths, on="_row").select(
        "frames", "samples", "latency_samples", match=pl.lit("exact")
    )
    return merge_stacks(Stacks(frames.select("frame_id", "layer", "name"), table))
