"""The ladder of limits: how long the window would be if one thing were free on all ranks."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from sightline.core.model.columns import duration, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.replay.gains import replay_both
from sightline.replay.host_changes import free_hosts
from sightline.replay.replay import scale_ops
from sightline.roofline.operator_roofs import list_operator_kernels, place_operators
from sightline.timeline.classes import COMMUNICATION, COPY, classify_run, list_class

ANALYSIS = Analysis(
    "limits",
    "What bounds the run: how long would it be if one thing were free?",
    (
        text("free", "what takes no time, on all ranks at once", required=True),
        duration("window_ns", "the window of the slowest device then"),
        duration("gain_ns", "how much shorter that is"),
        pct("gain_pct", "gain_ns, % of the window as recorded"),
    ),
    needs=("device_ops",),
    notes=(
        "Each row is a replay of the dependency graph with that change alone; everything at once "
        "is the last. No kernel overlaps another one unless there is room (`whatif`).",
        "host: calls and the time between them take nothing; waits for the device stay. "
        "copies, communication: their transfers take nothing. waiting for others: no rank waits "
        "for a late one in a collective; known where the ranks' recordings are opened together. "
        "kernels at their roofs: the operators whose work is counted from shapes take what the "
        "datasheet's peaks allow; the others are as they are.",
    ),
)

Change = Callable[[Run, pl.DataFrame], pl.DataFrame]


def run(run: Run) -> pl.DataFrame:
    """One row per thing that could be free and takes part in the run, and one for all of them."""
    rungs = {name: change for name, (applies, change) in _RUNGS.items() if applies(run)}
    rows = [_measure(run, name, [change]) for name, change in rungs.items()]
    if len(rungs) > 1:
        name, _, gain, _ = _measure(run, "all of these", list(rungs.values()))
        # Two changes gain at least what the larger alone does.
        gain, whole = max(gain, *(row[2] for row in rows)), rows[0][1] + rows[0][2]
        rows.append((name, whole - gain, gain, 100 * gain / max(whole, 1)))
    schema = {"free": pl.String, "window_ns": pl.Int64, "gain_ns": pl.Int64, "gain_pct": pl.Float64}
    return pl.DataFrame(rows, schema, orient="row")


def _measure(run: Run, name: str, changes: list[Change]) -> tuple[str, int, int, float]:
    def change(nodes: pl.DataFrame) -> pl.DataFrame:
        for each in changes:
            nodes = each(run, nodes)
        return nodes

    _, gain = replay_both(run, change)
    return name, gain.before_ns - gain.ns, gain.ns, 100 * gain.ns / max(gain.before_ns, 1)


def _free_class(of: str) -> Change:
    """Operations of one class take nothing."""

    def change(run: Run, nodes: pl.DataFrame) -> pl.DataFrame:
        ops = list_class(run, of, ("device_op_id",))
        return scale_ops(nodes, ops.select(ref_id="device_op_id", factor=0.0))

    return change


def _wait_for_nobody(run: Run, nodes: pl.DataFrame) -> pl.DataFrame:
    """Collectives take their transfer, whenever the others come."""
    meets = pl.col("meeting").is_not_null()
    return nodes.with_columns(
        end_ns=pl.when(meets)
        .then(pl.min_horizontal("end_ns", pl.col("start_ns") + pl.col("meeting_lag_ns")))
        .otherwise("end_ns"),
        meeting=pl.lit(None, nodes.schema["meeting"]),
    )


def _reach_roofs(run: Run, nodes: pl.DataFrame) -> pl.DataFrame:
    """Kernels of operators with counted work take what the peaks allow, if that is less."""
    calls = place_operators(run).drop_nulls("roof_ns").filter(pl.col("kernel_ns") > 0)
    factor = (pl.col("roof_ns") / pl.col("kernel_ns")).clip(upper_bound=1.0)
    kernels = (
        list_operator_kernels(run)
        .drop_nulls("owner")
        .join(
            calls.select("rank", "device_id", owner="host_op_id", factor=factor),
            on=["owner", "rank", "device_id"],
        )
    )
    return scale_ops(nodes, kernels.select("factor", ref_id="device_op_id"))


def _has(of: str) -> Callable[[Run], bool]:
    return lambda run: bool((classify_run(run).get_column("class_") == of).any())


def _has_meetings(run: Run) -> bool:
    ranks = run.columns("device_ops", ("rank",)).get_column("rank").n_unique()
    return ranks > 1 and bool(run.rows("collectives"))


def _has_roofs(run: Run) -> bool:
    return bool(run.rows("host_ops")) and place_operators(run).get_column("roof_ns").count() > 0


_RUNGS: dict[str, tuple[Callable[[Run], bool], Change]] = {
    "host": (lambda run: bool(run.rows("host_ops")), free_hosts),
    "copies": (_has(COPY), _free_class(COPY)),
    "communication": (_has(COMMUNICATION), _free_class(COMMUNICATION)),
    "waiting for others": (_has_meetings, _wait_for_nobody),
    "kernels at their roofs": (_has_roofs, _reach_roofs),
}
