"""Which finding speaks for each part of an idle gap: every nanosecond belongs to one rule.

The causes of `idle_parts` say what a gap's time went to; some causes are one problem's at one place
and another's elsewhere. First match wins:

preempted-launch-thread
                       preempted
cpu-oversubscribed     cpu_oversubscribed
irq-noise              interrupted
no-requests            no_request
recompilation          compiling, in two gaps or more outside of the first step
jit-or-module-load-in-window
                       compiling otherwise, or code_loading
dataloader-starved     data_loading
graph-capture-in-window
                       graph_capture
checkpoint-in-window   checkpoint
profiler-overhead      profiler_overhead
allocator-churn        allocation
pageable-copies        host_sync behind a copy from pageable memory, or slow_launch of one
d2h-in-step            host_sync behind a copy to the host of more than 64 KiB
many-small-copies      host_sync between two copies of at most 64 KiB, on a device of which most
                       operations are such copies
sync-in-step           host_sync otherwise
late-sender            late_sender
blocked-on-io          blocked_io
futex-contention       lock_wait
many-small-copies      late launches of a launch-bound device, most of them small copies
offload-mapping        host_late between two copies one way, in a program of OpenMP or OpenACC
launch-bound           late launches of a launch-bound device, at its pace
first-iteration-included
                       host_late in the first of three or more marked steps, where that step holds
                       most of all such time
host-late              host_late otherwise
tiny-kernels           in_graph or micro_gap, where the median kernel is shorter than 10 µs
gpu-idle               the rest
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows, take_rows
from sightline.core.model.columns import RANK, duration, join, number, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.core.model.span import EXCERPT
from sightline.timeline import causes
from sightline.timeline.copies import SMALL_BYTES, list_copy_causes
from sightline.timeline.idle import PACE_INTERVALS
from sightline.timeline.world import OFFLOAD, read_world

ANALYSIS = Analysis(
    "idle_rules",
    "Which finding reports each part of an idle gap?",
    (
        RANK,
        number("device_id", "device", required=True),
        time("start_ns", "start of the gap"),
        time("end_ns", "end of the gap"),
        duration("duration_ns", "how much of the gap the finding covers"),
        text("cause", "cause of idle_parts", required=True),
        text("rule", "rule that reports it", required=True),
        join("before_id", "device_ops.device_op_id", "operation that ended last before the gap"),
        join("after_id", "device_ops.device_op_id", "operation that ends the gap"),
        join("launch_id", "host_ops.host_op_id", "the call that launched it"),
        join("host_op_id", "host_ops.host_op_id", "what the launching thread was in"),
        text("host_op", "its name"),
    ),
    needs=("device_ops",),
    worst="duration_ns",
)

# TraceLens agent, 2026-08: kernels with a mean below 10 µs are short.
TINY_NS = 10_000
_BY = ["rank", "device_id"]


def run(run: Run) -> pl.DataFrame:
    """One row per gap and cause, in order of device and time."""
    gaps = run.ask("idle_parts").rename({"part_ns": "duration_ns"})
    ops = run.table(
        "device_ops",
        ["device_op_id", *_BY, "kind", "start_ns", "end_ns", "bytes", "copy_kind"],
    )
    copies = ops.select(copy=list_copy_causes(run), size="bytes", way="copy_kind")
    before = find_rows(ops.get_column("device_op_id"), gaps.get_column("before_id"))
    after = find_rows(ops.get_column("device_op_id"), gaps.get_column("after_id"))
    gaps = gaps.hstack(take_rows(copies, before)).with_columns(
        next_copy=copies.get_column("copy").gather(after),
        next_way=copies.get_column("way").gather(after),
    )
    length = (pl.col("end_ns") - pl.col("start_ns")).filter(pl.col("kind") == "kernel")
    median = (
        ops.select(*_BY, "kind", "start_ns", "end_ns").group_by(_BY).agg(median_ns=length.median())
    )
    gaps = gaps.join(median, on=_BY, how="left")
    small = (
        ops.select(_BY)
        .with_columns(copies.get_column("copy"))
        .group_by(_BY)
        .agg(mostly_small=(pl.col("copy") == causes.SMALL).fill_null(value=False).mean() > 0.5)
    )
    bound = _find_launch_bound(run, small)
    gaps = gaps.join(bound, on=_BY, how="left").join(small, on=_BY, how="left")
    gaps = gaps.with_columns(first=_is_in_first_step(run, gaps))
    gaps = gaps.with_columns(again=_is_recompilation(run, gaps))
    waits = pl.col("cause") == "host_sync"
    both_small = (pl.col("copy") == causes.SMALL) & (pl.col("next_copy") == causes.SMALL)
    # A part longer than the pace of launching is something that the host did once.
    late = pl.col("cause").is_in(["host_late", "launch_latency"]) & (
        pl.col("duration_ns") <= pl.col("pace_ns")
    )
    # The region's calls launch both: what lies between them is its runtime's work.
    maps = pl.lit(read_world(run).framework in OFFLOAD) & pl.col("way").is_in(["HtoD", "DtoH"])
    rules = {
        causes.PREEMPTED: pl.col("cause") == "preempted",
        causes.OVERSUBSCRIBED: pl.col("cause") == "cpu_oversubscribed",
        causes.INTERRUPTED: pl.col("cause") == "interrupted",
        causes.NO_REQUEST: pl.col("cause") == "no_request",
        causes.RECOMPILATION: pl.col("again"),
        causes.CODE_LOADING: pl.col("cause").is_in(["compiling", "code_loading"]),
        causes.DATA_LOADING: pl.col("cause") == "data_loading",
        causes.GRAPH_CAPTURE: pl.col("cause") == "graph_capture",
        causes.CHECKPOINT: pl.col("cause") == "checkpoint",
        causes.PROFILER: pl.col("cause") == "profiler_overhead",
        causes.ALLOCATION: pl.col("cause") == "allocation",
        causes.PAGEABLE: (waits & (pl.col("copy") == causes.PAGEABLE))
        | ((pl.col("cause") == "slow_launch") & (pl.col("next_copy") == causes.PAGEABLE)),
        causes.DOWNLOAD: waits & (pl.col("way") == "DtoH") & (pl.col("size") > SMALL_BYTES),
        causes.SMALL: (waits & pl.col("mostly_small") & both_small)
        | (late & (pl.col("bound") == causes.SMALL)),
        causes.SYNCHRONISATION: waits,
        causes.LATE_SENDER: pl.col("cause") == "late_sender",
        causes.INPUT_OUTPUT: pl.col("cause") == "blocked_io",
        causes.LOCK: pl.col("cause") == "lock_wait",
        causes.MAPPING: maps
        & (pl.col("cause") == "host_late")
        & (pl.col("way") == pl.col("next_way")),
        causes.LAUNCHES: late & (pl.col("bound") == causes.LAUNCHES),
        causes.FIRST_STEP: (pl.col("cause") == "host_late") & pl.col("first"),
        causes.HOST: pl.col("cause") == "host_late",
        causes.SHORT_KERNELS: pl.col("cause").is_in(["in_graph", "micro_gap"])
        & (pl.col("median_ns") < TINY_NS),
    }
    first = pl.lit(len(rules), pl.UInt8)
    for place, holds in reversed(list(enumerate(rules.values()))):
        first = pl.when(holds.fill_null(value=False)).then(pl.lit(place, pl.UInt8)).otherwise(first)
    # A text for each gap is made once, not for each rule.
    rule = pl.Series([*rules, causes.OTHER_IDLE]).gather(gaps.select(first).to_series())
    return gaps.with_columns(rule=rule).select(c.name for c in ANALYSIS.columns)


def _is_recompilation(run: Run, gaps: pl.DataFrame) -> pl.Series:
    """Gaps in which the host compiles, not for the first time: several in steps after the first.

    Without steps a first compilation looks the same: it takes a gap for each graph.
    """
    compiles = pl.col("cause") == "compiling"
    host = run.table("host_ops", ["rank", "layer", "start_ns", "end_ns"])
    steps = (
        host.filter(pl.col("layer") == "step")
        .group_by("rank")
        .agg(n=pl.len(), first_end=pl.col("end_ns").min())
    )
    marked = gaps.select("rank", "end_ns", compiles=compiles).join(
        steps, on="rank", how="left", maintain_order="left"
    )
    later = (pl.col("end_ns") > pl.col("first_end")) & (pl.col("n") > 1)
    mine = pl.col("compiles") & later.fill_null(value=False)
    return marked.select((mine & (mine.sum().over("rank") > 1)).alias("again")).to_series()


def _find_launch_bound(run: Run, small: pl.DataFrame) -> pl.DataFrame:
    """Devices that are launch-bound, and whether by small copies (`mostly_small` of a device)."""
    if not run.rows("host_ops"):
        types = {"rank": pl.Int64, "device_id": pl.Int64, "bound": pl.String, "pace_ns": pl.Float64}
        return pl.DataFrame(schema=types)
    return (
        run.ask("launch_pressure")
        .filter("launch_bound")
        .join(small, on=_BY)
        .select(
            *_BY,
            bound=pl.when("mostly_small")
            .then(pl.lit(causes.SMALL))
            .otherwise(pl.lit(causes.LAUNCHES)),
            pace_ns=PACE_INTERVALS * pl.col("median_interval_ns"),
        )
    )


def _is_in_first_step(run: Run, gaps: pl.DataFrame) -> pl.Series:
    """Whether a gap lies in the first of three or more steps, which holds most of such time.

    No step of an excerpt is known to be the program's first.
    """
    if (run.table("quality").get_column("kind") == EXCERPT).any():
        return pl.repeat(value=False, n=gaps.height, eager=True).alias("first")
    host = run.table("host_ops", ["rank", "layer", "start_ns", "end_ns"])
    steps = host.filter(pl.col("layer") == "step")
    firsts = (
        steps.group_by("rank")
        .agg(
            n=pl.len(),
            step_start=pl.col("start_ns").min(),
            step_end=pl.col("end_ns").sort_by("start_ns").first(),
        )
        .filter(pl.col("n") >= 3)
    )
    if firsts.is_empty():
        return pl.repeat(value=False, n=gaps.height, eager=True).alias("first")
    inside = (
        gaps.select("rank", "cause", "duration_ns", "end_ns")
        .join(firsts, on="rank", how="left", maintain_order="left")
        .with_columns(
            first=(pl.col("end_ns").is_between("step_start", "step_end")).fill_null(value=False)
        )
    )
    late = pl.col("duration_ns").filter(pl.col("cause") == "host_late")
    there = pl.col("duration_ns").filter((pl.col("cause") == "host_late") & pl.col("first"))
    most = inside.select((2 * there.sum() > late.sum()).over("rank")).to_series()
    return (inside.get_column("first") & most).alias("first")
