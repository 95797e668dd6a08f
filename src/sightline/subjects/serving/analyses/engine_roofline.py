"""How far is each phase of the engine from what the GPU could do?

A step of decode reads each weight once, and the keys and values of its requests: that over the
memory's bandwidth is the best possible time between two tokens. A step with prompts computes:
its FLOP over the peak are the MFU.

source
shapes          what the operators of the steps compute and move by their recorded shapes; each
                operator is under its own roof. Paged attention and kernels of graphs have none:
                `counted_pct` says how much of the kernels' time is in operators that were counted,
                and the bound is of these alone; a phase with less than half of it is left out
server's count  vLLM's own estimate (--enable-mfu-metrics), read before and behind: of all phases,
                weights, keys and values included
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.model.columns import RANK, duration, number, pct, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.roofline.hardware import Gpu, find_gpu
from sightline.roofline.operator_roofs import place_operators
from sightline.subjects.serving.load import sum_counter
from sightline.timeline.engine_steps import list_step_work

_PIPE = "peak.bf16_tensor"  # of the server's count, which names no type
# A bound of less than half of the work says little of a step (ours).
LEAST_COUNTED_PCT = 50.0
SHAPES, COUNT = "shapes", "server's count"

ANALYSIS = Analysis(
    "engine_roofline",
    "How far is each phase of the engine from what the GPU could do?",
    (
        RANK,
        text("phase", "prefill, decode, mixed, …; 'all' by the server's count", required=True),
        number("steps", "steps of that phase"),
        real("flop", "of a step, mean", "FLOP"),
        real("moved_bytes", "of a step, mean", "bytes"),
        duration("best_ns", "least time of a step, by its bytes and FLOP, mean"),
        duration("duration_ns", "time of a step, mean"),
        duration("cycle_ns", "from its start to that of the next one with requests there, mean"),
        real("times_best", "duration over best_ns"),
        pct("mfu_pct", "FLOP a second of its duration, % of the peak"),
        pct("mbu_pct", "bytes a second of its duration, % of the memory's bandwidth"),
        text("bound", "memory or compute: which of the two best_ns is"),
        pct("counted_pct", "time of kernels in operators that were counted, % of all kernels'"),
        text("source", "shapes or server's count", required=True),
    ),
    notes=("best_ns of decode is the best possible inter-token latency, without scheduling.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and phase. Raises MissingDataError without work or without peaks."""
    steps = run.ask("engine_steps")
    by_shapes = _measure_shapes(run, steps)
    found = by_shapes if by_shapes.height else _measure_count(run, steps)
    if found.is_empty():
        raise MissingDataError(
            "how far the engine is from its roofline is unknown",
            why="too few operators of its steps have shapes on a GPU with known peaks, and the "
            "server counted neither FLOP nor bytes",
            hint="Record shapes (torch_profiler_record_shapes in vLLM's --profiler-config), or "
            "start vLLM with --enable-mfu-metrics and record with  sightline run --server",
        )
    return found.select(column.name for column in ANALYSIS.columns)


def _measure_shapes(run: Run, steps: pl.DataFrame) -> pl.DataFrame:
    if not run.rows("device_ops"):
        return pl.DataFrame()
    calls = place_operators(run).drop_nulls("roof_ns")
    if calls.is_empty():
        return pl.DataFrame()
    work = list_step_work(run).filter(pl.col("kind") == "kernel")
    host = run.table("host_ops", ["host_op_id", "rank", "pid", "start_ns"])
    at = find_rows(host.get_column("host_op_id"), calls.get_column("host_op_id"))
    placed = calls.with_columns(
        pid=host.get_column("pid").gather(at), at=host.get_column("start_ns").gather(at)
    ).sort("at")
    begins = steps.select("rank", "step", "phase", at="host_start_ns").sort("at")
    placed = placed.join_asof(begins, on="at", by="rank", check_sortedness=False)
    sums = placed.drop_nulls("step").group_by("rank", "step").agg(
        pl.col("flop").sum(), pl.col("moved_bytes").sum(), pl.col("roof_ns").sum(),
        pl.col("kernel_ns").sum().alias("counted_ns"),
        compute_ns=pl.col("roof_ns").filter(pl.col("bound") == "compute").sum(),
        peak_flops=pl.col("peak_flop_per_s").max(), peak_bytes=pl.col("peak_bytes_per_s").max(),
    )  # fmt: skip
    kernels = work.group_by("rank", "step").agg(
        all_ns=(pl.col("end_ns") - pl.col("start_ns")).sum()
    )
    known = steps.join(sums, on=["rank", "step"]).join(kernels, on=["rank", "step"], how="left")
    compute = pl.col("compute_ns").sum() * 2 > pl.col("roof_ns").sum()
    return _finish(
        known.group_by("rank", "phase", maintain_order=True).agg(
            *_AVERAGED,
            pl.col("flop").mean(), pl.col("moved_bytes").mean(), pl.col("peak_flops").max(),
            pl.col("peak_bytes").max(), best=pl.col("roof_ns").mean(),
            bound=pl.when(compute).then(pl.lit("compute")).otherwise(pl.lit("memory")),
            counted_pct=100 * pl.col("counted_ns").sum() / pl.col("all_ns").sum(),
        )
        .filter(pl.col("counted_pct") >= LEAST_COUNTED_PCT),
        SHAPES,
    )  # fmt: skip


_AVERAGED = (
    pl.len().cast(pl.Int64).alias("steps"),
    pl.col("duration_ns").mean().alias("duration"),
    (pl.col("duration_ns") + pl.col("scheduler_ns") + pl.col("in_step_ns")).mean().alias("cycle"),
)


def _measure_count(run: Run, steps: pl.DataFrame) -> pl.DataFrame:
    gpu = _find_gpu(run)
    flop = sum_counter(run, "flops")
    moved = sum_counter(run, "read_bytes") + sum_counter(run, "written_bytes")
    if gpu is None or not (flop or moved):
        return pl.DataFrame()
    peak_flops, peak_bytes = gpu.number(_PIPE), gpu.number("memory_bandwidth")
    known = steps.filter(pl.col("phase").fill_null("") != "empty")
    averaged = known.group_by("rank", maintain_order=True).agg(*_AVERAGED)
    if not peak_flops or not peak_bytes:
        return pl.DataFrame()
    each = averaged.with_columns(flop=flop / pl.col("steps"), moved_bytes=moved / pl.col("steps"))
    compute, memory = (
        1e9 * pl.col("flop") / peak_flops, 1e9 * pl.col("moved_bytes") / peak_bytes,
    )  # fmt: skip
    return _finish(
        each.with_columns(
            phase=pl.lit("all"), best=pl.max_horizontal(compute, memory),
            bound=pl.when(compute > memory).then(pl.lit("compute")).otherwise(pl.lit("memory")),
            counted_pct=pl.lit(None, pl.Float64), peak_flops=pl.lit(peak_flops),
            peak_bytes=pl.lit(peak_bytes),
        ),
        COUNT,
    )  # fmt: skip


def _find_gpu(run: Run) -> Gpu | None:
    names = run.table("devices", ["name"]).get_column("name").drop_nulls().unique().to_list()
    return find_gpu(names[0]) if len(names) == 1 else None


def _finish(known: pl.DataFrame, source: str) -> pl.DataFrame:
    seconds = pl.col("duration") / 1e9
    return known.with_columns(
        *(
            pl.col(name).round().cast(pl.Int64).alias(f"{name}_ns")
            for name in ("best", "duration", "cycle")
        ),
        times_best=pl.col("duration") / pl.col("best"),
        mfu_pct=100 * pl.col("flop") / seconds / pl.col("peak_flops"),
        mbu_pct=100 * pl.col("moved_bytes") / seconds / pl.col("peak_bytes"),
        flop=pl.col("flop").cast(pl.Float64),
        moved_bytes=pl.col("moved_bytes").cast(pl.Float64),
        source=pl.lit(source),
    ).sort("rank", "phase")
