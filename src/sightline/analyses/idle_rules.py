"""Which finding speaks for each gap on a device: every gap belongs to one rule.

The causes of `idle_gaps` say why a gap arose; some causes are one problem's at one place and
another's elsewhere. First match wins:

recompilation          most of it in a compiler, in two gaps or more outside of the first step
jit-or-module-load-in-window
                       most of it in a compiler otherwise, or in what loads or links code
dataloader-starved     data_loading
profiler-overhead      profiler_overhead
allocator-churn        alloc_or_load otherwise
pageable-copies        host_sync behind a copy from pageable memory
d2h-in-step            host_sync behind a copy to the host of more than 64 KiB
sync-in-step           host_sync otherwise
many-small-copies      late launches of a launch-bound device, most of them small copies
launch-bound           late launches of a launch-bound device
first-iteration-included
                       host_late in the first of three or more marked steps, where that step holds
                       most of all such time
host-late              host_late otherwise
tiny-kernels           in_graph or micro_gap, where the median kernel is shorter than 10 µs
gpu-idle               the rest
"""

from __future__ import annotations

import polars as pl

from sightline.algebra.intervals import measure_cover_until
from sightline.algebra.lookup import find_rows, take_rows
from sightline.model.columns import RANK, duration, join, number, text, time
from sightline.model.declare import Analysis
from sightline.model.run import Run
from sightline.timeline import causes
from sightline.timeline.api_calls import loads_code
from sightline.timeline.copies import SMALL_BYTES, name_copy_cause
from sightline.timeline.host_ranges import list_compiler_ranges, list_ranges

ANALYSIS = Analysis(
    "idle_rules",
    "Which finding speaks for each idle gap?",
    (
        RANK,
        number("device_id", "device", required=True),
        time("start_ns", "start of the gap"),
        time("end_ns", "end of the gap"),
        duration("duration_ns", "length of the gap"),
        text("cause", "cause of idle_gaps", required=True),
        text("rule", "rule that speaks for it", required=True),
        join("before_id", "device_ops.device_op_id", "operation that ended last before the gap"),
        join("after_id", "device_ops.device_op_id", "operation that ends the gap"),
        join("launch_id", "host_ops.host_op_id", "the call that launched it"),
        text("host_op", "what the launching thread was in"),
    ),
    needs=("device_ops",),
)

# TraceLens agent, 2026-08: kernels with a mean below 10 µs are short.
TINY_NS = 10_000
_LOADS = (pl.col("cause") == "alloc_or_load") & (2 * pl.col("code_ns") > pl.col("duration_ns"))
_COMPILES = _LOADS | (2 * pl.col("compile_ns") > pl.col("duration_ns"))
_BY = ["rank", "device_id"]
_THREAD = ["rank", "pid", "tid"]


def run(run: Run) -> pl.DataFrame:
    """One row per gap, in order of device and time."""
    gaps = run.ask("idle_gaps")
    host, ops = run.table("host_ops"), run.table("device_ops")
    before = ops.select(copy=name_copy_cause(), size="bytes", way="copy_kind")
    at = find_rows(ops.get_column("device_op_id"), gaps.get_column("before_id"))
    called = find_rows(host.get_column("host_op_id"), gaps.get_column("launch_id"))
    gaps = gaps.hstack(take_rows(before, at)).hstack(take_rows(host.select("pid", "tid"), called))
    ranges, names = list_ranges(run)
    code = ranges.filter(loads_code(names)).filter(
        pl.col("layer").is_in(["runtime", "driver", "overhead"])
    )
    gaps = gaps.with_columns(
        code_ns=measure_cover_until(gaps, "end_ns", code, _THREAD)
        - measure_cover_until(gaps, "start_ns", code, _THREAD)
    )
    compiled = list_compiler_ranges(run)
    gaps = gaps.with_columns(
        compile_ns=measure_cover_until(gaps, "end_ns", compiled, _THREAD)
        - measure_cover_until(gaps, "start_ns", compiled, _THREAD)
    )
    length = (pl.col("end_ns") - pl.col("start_ns")).filter(pl.col("kind") == "kernel")
    median = (
        ops.select(*_BY, "kind", "start_ns", "end_ns").group_by(_BY).agg(median_ns=length.median())
    )
    gaps = gaps.join(median, on=_BY, how="left")
    bound = _find_launch_bound(run, ops.select(_BY).with_columns(before.get_column("copy")))
    gaps = gaps.join(bound, on=_BY, how="left").with_columns(first=_is_in_first_step(run, gaps))
    gaps = gaps.with_columns(again=_is_recompilation(run, gaps))
    late = pl.col("cause").is_in(["host_late", "launch_latency"])
    rules = {
        causes.RECOMPILATION: pl.col("again"),
        causes.CODE_LOADING: _COMPILES,
        causes.DATA_LOADING: pl.col("cause") == "data_loading",
        causes.PROFILER: pl.col("cause") == "profiler_overhead",
        causes.ALLOCATION: pl.col("cause") == "alloc_or_load",
        causes.PAGEABLE: (pl.col("cause") == "host_sync") & (pl.col("copy") == causes.PAGEABLE),
        causes.DOWNLOAD: (pl.col("cause") == "host_sync")
        & (pl.col("way") == "DtoH")
        & (pl.col("size") > SMALL_BYTES),
        causes.SYNCHRONISATION: pl.col("cause") == "host_sync",
        causes.SMALL: late & (pl.col("bound") == causes.SMALL),
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
    return (
        gaps.with_columns(rule=rule).sort(*_BY, "start_ns").select(c.name for c in ANALYSIS.columns)
    )


def _is_recompilation(run: Run, gaps: pl.DataFrame) -> pl.Series:
    """Gaps in which the host compiles, not for the first time: several in steps after the first.

    Without steps a first compilation looks the same: it takes a gap for each graph.
    """
    compiles = 2 * pl.col("compile_ns") > pl.col("duration_ns")
    host = run.table("host_ops").select("rank", "layer", "start_ns", "end_ns")
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


def _find_launch_bound(run: Run, ops: pl.DataFrame) -> pl.DataFrame:
    """Devices that are launch-bound, and whether by small copies.

    `ops` are the device's operations, with the rule of each one that is a `copy`.
    """
    if not run.rows("host_ops"):
        return pl.DataFrame(schema={"rank": pl.Int64, "device_id": pl.Int64, "bound": pl.String})
    small = ops.group_by(_BY).agg(
        small=(pl.col("copy") == causes.SMALL).fill_null(value=False).mean()
    )
    return (
        run.ask("launch_pressure")
        .filter("launch_bound")
        .join(small, on=_BY)
        .select(
            *_BY,
            bound=pl.when(pl.col("small") > 0.5)
            .then(pl.lit(causes.SMALL))
            .otherwise(pl.lit(causes.LAUNCHES)),
        )
    )


def _is_in_first_step(run: Run, gaps: pl.DataFrame) -> pl.Series:
    """Whether a gap lies in the first of three or more steps, which holds most of such time."""
    host = run.table("host_ops").select("rank", "layer", "start_ns", "end_ns")
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
