"""Which framework operators cost what, on the host and on the device."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import add_up_rows, find_rows
from sightline.core.algebra.trees import find_nearest_ancestor, is_outermost, sum_subtrees
from sightline.core.algebra.window import host_in
from sightline.core.model.columns import duration, number, pct, text
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
    ),
    needs=("host_ops",),
    notes=(
        "Device time follows the launch calls; device operations that ran together are each "
        "counted.",
        "Totals count an operator that calls itself once. Totals of different operators overlap.",
        "The row '(no operator)' is device time launched outside every operator, "
        "'(launch not recorded)' that without a launch call.",
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
    host = host.with_columns(length=length, inside=inside).hstack(launched)
    host = host.with_columns(
        device_total_ns=sum_subtrees(host, "device_ns"), children_ns=_sum_children(host)
    )
    ops = host.filter(pl.col("layer") == "op")
    ops = ops.with_columns(outermost=is_outermost(ops, "name")).filter("inside")
    own = _sum_own_device_time(host)
    table = (
        ops.group_by("name")
        .agg(
            instances=pl.len(),
            host_total_ns=pl.col("length").filter("outermost").sum(),
            host_self_ns=(pl.col("length") - pl.col("children_ns")).sum(),
            device_total_ns=pl.col("device_total_ns").filter("outermost").sum(),
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
    return (
        table.with_columns(counted.fill_null(0))
        .with_columns(
            device_pct=(100 * pl.col("device_self_ns") / pl.col("device_self_ns").sum()).fill_nan(
                0.0
            )
        )
        .sort("device_self_ns", "host_self_ns", "name", descending=[True, True, False])
    )


def _sum_children(host: pl.DataFrame) -> pl.Series:
    """Time that each range's direct children take of it, cut to the range itself."""
    parent = find_rows(host.get_column("host_op_id"), host.get_column("parent_id"))
    parent_end = host.get_column("end_ns").gather(parent)
    taken = host.select(ns=pl.min_horizontal("end_ns", parent_end) - pl.col("start_ns"))
    return add_up_rows(parent, taken, host.height).get_column("ns")


def _sum_own_device_time(host: pl.DataFrame) -> pl.DataFrame:
    """Device time by the innermost operator around each launch call."""
    ids = host.get_column("host_op_id")
    calls = host.filter((pl.col("launches") > 0) & pl.col("inside"))
    operators = ids.filter(host.get_column("layer") == "op")
    owner = find_nearest_ancestor(host, calls.get_column("host_op_id"), operators)
    return (
        calls.select(
            "device_ns", "launches", name=host.get_column("name").gather(find_rows(ids, owner))
        )
        .group_by("name")
        .agg(device_self_ns=pl.col("device_ns").sum(), launches=pl.col("launches").sum())
        .with_columns(pl.col("name").cast(pl.String).fill_null(NO_OPERATOR))
    )
