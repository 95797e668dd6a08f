"""Which framework operators cost what, on the host and on the device."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import add_up_rows, find_rows
from sightline.core.algebra.trees import (
    find_nearest_ancestor,
    find_open_range,
    is_outermost,
    sum_subtrees,
)
from sightline.core.algebra.window import host_in
from sightline.core.model.columns import duration, number, pct, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "ops",
    "Which framework operators cost what, on the host and on the device?",
    (
        text("name", "operator", required=True),
        number("instances", "how often it was called"),
        duration("host_total_ns", "time in it, its callees included"),
        duration("host_self_ns", "time in it and in nothing recorded below it"),
        duration("device_total_ns", "device time launched from it, its callees included"),
        duration("device_self_ns", "device time launched from it and from no operator below it"),
        pct("device_pct", "device_self_ns, % of all rows' device_self_ns"),
        number("launches", "device operations launched from it and from no operator below it"),
        size("memory_total_bytes", "device memory allocated in it less freed, callees included"),
        size("memory_self_bytes", "the same outside of all operators below it"),
    ),
    needs=("host_ops",),
    notes=(
        "Device time follows the launch calls; device operations that ran together are each "
        "counted.",
        "Totals count an operator that calls itself once. Totals of different operators overlap.",
        "The row '(no operator)' is device time launched outside every operator, "
        "'(launch not recorded)' that without a launch call.",
        "Memory is what PyTorch's profiler calls device_memory_usage: negative where an operator "
        "frees more than it allocates; null without recorded allocations (run --memory).",
    ),
)

# Sorting moves every column: these are all that is needed here.
_USED = (
    "recording_id",
    "rank",
    "host_op_id",
    "parent_id",
    "subtree_end_id",
    "layer",
    "name",
    "start_ns",
    "end_ns",
)
NO_OPERATOR = "(no operator)"
_TIMES = ("start_ns", "end_ns")
_DEVICE = ("rank", "device_id")
NO_LAUNCH = "(launch not recorded)"


def run(run: Run) -> pl.DataFrame:
    """One row per operator, the largest device time first."""
    host = run.table("host_ops", _USED).with_columns(pl.col("name").cast(pl.Categorical))
    if not host.get_column("host_op_id").is_sorted():
        host = host.sort("host_op_id")
    device = run.table("device_ops", ["launch_id", *_DEVICE, "start_ns", "end_ns"]).select(
        "launch_id", *_DEVICE, "start_ns", length=pl.col("end_ns") - pl.col("start_ns")
    )
    inside = host_in(
        host,
        run.ask("windows") if device.height else device,
        whole_recording=run.window is None or device.is_empty(),
    )
    ids = host.get_column("host_op_id")
    launched = add_up_rows(
        find_rows(ids, device.get_column("launch_id")),
        device.select(device_ns="length", launches=pl.lit(1, pl.Int64)),
        host.height,
    )
    length = pl.col("end_ns") - pl.col("start_ns")
    memory = _sum_memory(run, ids)
    host = host.with_columns(length=length, inside=inside, memory=memory).hstack(launched)
    host = host.with_columns(
        device_total_ns=sum_subtrees(host, "device_ns"),
        memory_total=sum_subtrees(host, "memory"),
        children_ns=_sum_children(host),
    )
    ops = host.filter(pl.col("layer") == "op")
    ops = ops.with_columns(outermost=is_outermost(ops, "name")).filter("inside")
    own = _sum_own(host)
    table = (
        ops.group_by("name")
        .agg(
            instances=pl.len(),
            host_total_ns=pl.col("length").filter("outermost").sum(),
            host_self_ns=(pl.col("length") - pl.col("children_ns")).sum(),
            device_total_ns=pl.col("device_total_ns").filter("outermost").sum(),
            memory_total_bytes=pl.col("memory_total").filter("outermost").sum(),
        )
        .with_columns(pl.col("name").cast(pl.String))
        .join(own, on="name", how="full", coalesce=True)
    )
    unlaunched = device.filter(pl.col("launch_id").is_null())
    if unlaunched.height and run.window is None:
        extra = pl.DataFrame(
            {
                "name": [NO_LAUNCH],
                "device_self_ns": [unlaunched.get_column("length").sum()],
                "launches": [unlaunched.height],
            }
        )
        table = pl.concat([table, extra], how="diagonal_relaxed")
    counted = pl.exclude("name", "device_pct")
    has_memory = run.rows("memory_events") > 0
    return (
        table.with_columns(counted.fill_null(0))
        .with_columns(
            pl.when(has_memory).then(name) for name in ("memory_total_bytes", "memory_self_bytes")
        )
        .with_columns(
            device_pct=(100 * pl.col("device_self_ns") / pl.col("device_self_ns").sum()).fill_nan(
                0.0
            )
        )
        .sort("device_self_ns", "host_self_ns", "name", descending=[True, True, False])
        .select(column.name for column in ANALYSIS.columns)
    )


def _sum_children(host: pl.DataFrame) -> pl.Series:
    """Time that each range's direct children take of it, cut to the range itself."""
    parent = find_rows(host.get_column("host_op_id"), host.get_column("parent_id"))
    parent_end = host.get_column("end_ns").gather(parent)
    taken = host.select(ns=pl.min_horizontal("end_ns", parent_end) - pl.col("start_ns"))
    return add_up_rows(parent, taken, host.height).get_column("ns")


def _sum_memory(run: Run, ids: pl.Series) -> pl.Series:
    """Device memory that each range itself allocated less what it freed; zero where none is."""
    none = pl.repeat(0, ids.len(), dtype=pl.Int64, eager=True)
    if not run.rows("memory_events"):
        return none
    used = ["action", "device_id", "time_ns", "rank", "pid", "tid", "bytes", "host_op_id"]
    events = run.table("memory_events", used).filter(
        pl.col("action").is_in(["alloc", "free"]), pl.col("device_id").is_not_null()
    )
    threads = run.table("host_ops", ["host_op_id", "parent_id", "rank", "pid", "tid", *_TIMES])
    around = find_open_range(threads.sort("host_op_id"), events, "time_ns")
    signed = pl.when(pl.col("action") == "alloc").then("bytes").otherwise(-pl.col("bytes"))
    rows = find_rows(ids, pl.select(pl.coalesce(events["host_op_id"], around)).to_series())
    return add_up_rows(rows, events.select(memory=signed), ids.len()).get_column("memory")


def _sum_own(host: pl.DataFrame) -> pl.DataFrame:
    """Device time and memory by the innermost operator around each call that took them."""
    ids = host.get_column("host_op_id")
    takes = (pl.col("launches") > 0) | (pl.col("memory") != 0)
    calls = host.filter(takes & pl.col("inside"))
    operators = ids.filter(host.get_column("layer") == "op")
    owner = find_nearest_ancestor(host, calls.get_column("host_op_id"), operators)
    name = host.get_column("name").gather(find_rows(ids, owner))
    return (
        calls.select("device_ns", "launches", "memory", name=name)
        .group_by("name")
        .agg(
            device_self_ns=pl.col("device_ns").sum(),
            launches=pl.col("launches").sum(),
            memory_self_bytes=pl.col("memory").sum(),
        )
        .with_columns(pl.col("name").cast(pl.String).fill_null(NO_OPERATOR))
    )
