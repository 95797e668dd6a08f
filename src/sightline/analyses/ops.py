"""Which framework operators cost what, on the host and on the device."""

from __future__ import annotations

import polars as pl

from sightline.algebra.trees import is_outermost, nearest_ancestor, subtree_sum
from sightline.algebra.window import host_in
from sightline.model.columns import duration, number, pct, text
from sightline.model.declare import Analysis
from sightline.model.run import Run

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
_USED = ("recording_id", "rank", "host_op_id", "parent_id", "subtree_end_id", "layer", "name",
         "start_ns", "end_ns")  # fmt: skip
NO_OPERATOR = "(no operator)"
NO_LAUNCH = "(launch not recorded)"


def run(run: Run) -> pl.DataFrame:
    """One row per operator, the largest device time first."""
    host = run.table("host_ops").select(_USED).sort("host_op_id")
    device = run.table("device_ops").select(
        "launch_id", "rank", "device_id", "start_ns", length=pl.col("end_ns") - pl.col("start_ns")
    )
    inside = host_in(
        host,
        run.ask("windows") if device.height else device,
        whole_recording=run.window is None or device.is_empty(),
    )
    per_call = device.group_by("launch_id").agg(device_ns=pl.col("length").sum(), launches=pl.len())
    length = pl.col("end_ns") - pl.col("start_ns")
    host = host.with_columns(length=length, inside=inside).join(
        per_call, left_on="host_op_id", right_on="launch_id", how="left", maintain_order="left"
    )
    host = host.with_columns(device_total_ns=subtree_sum(host, "device_ns")).join(
        _children(host), on="host_op_id", how="left", maintain_order="left"
    )
    ops = host.filter(pl.col("layer") == "op")
    ops = ops.with_columns(outermost=is_outermost(ops, "name")).filter("inside")
    own = _own_device_time(host, ops)
    table = (
        ops.group_by("name")
        .agg(
            instances=pl.len(),
            host_total_ns=pl.col("length").filter("outermost").sum(),
            host_self_ns=(pl.col("length") - pl.col("children_ns").fill_null(0)).sum(),
            device_total_ns=pl.col("device_total_ns").filter("outermost").sum(),
        )
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


def _children(host: pl.DataFrame) -> pl.DataFrame:
    """Time that each range's direct children take of it, cut to the range itself."""
    parents = host.select(parent_id="host_op_id", parent_start="start_ns", parent_end="end_ns")
    return (
        host.filter(pl.col("parent_id").is_not_null())
        .join(parents, on="parent_id")
        .group_by(host_op_id="parent_id")
        .agg(children_ns=(pl.min_horizontal("end_ns", "parent_end") - pl.col("start_ns")).sum())
    )


def _own_device_time(host: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Device time by the innermost operator around each launch call."""
    calls = host.filter(pl.col("device_ns").is_not_null() & pl.col("inside"))
    operators = host.filter(pl.col("layer") == "op")
    owner = nearest_ancestor(
        host, calls.get_column("host_op_id"), operators.get_column("host_op_id")
    )
    return (
        calls.select("device_ns", "launches")
        .with_columns(owner=owner)
        .join(operators.select(owner="host_op_id", name="name"), on="owner", how="left")
        .with_columns(pl.col("name").fill_null(NO_OPERATOR))
        .group_by("name")
        .agg(device_self_ns=pl.col("device_ns").sum(), launches=pl.col("launches").sum())
    )
