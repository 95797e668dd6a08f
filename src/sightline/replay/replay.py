"""Replays a run's dependency graph with some of its work changed: the engine of all gains.

`graph.build` gives the nodes; a change is another version of the same rows (a length, a lag, an
edge taken away). One pass in order gives every node's new start and end; an unchanged graph gives
the recording to the nanosecond.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline._native import replay as native_replay
from sightline.core.algebra.arrow import pack_columns, unpack_columns
from sightline.core.algebra.intervals import is_one_group
from sightline.core.algebra.lookup import find_rows, mark_rows, take_rows
from sightline.replay.graph import WAIT_NS

# What a node waits for, as compiled code reads it: a node, and the time from then on.
EDGES = ("prev", "prev_lag_ns", "launch", "launch_lag_ns", "wait", "wait_lag_ns")

# What a device's window begins behind: a node, and the time from its end on.
ANCHORS = {"rank": pl.Int64, "device_id": pl.Int64, "anchor": pl.Int64, "lead_ns": pl.Int64}


@dataclass(frozen=True)
class Times:
    """New start and end of every node, ns, in order of the nodes."""

    start: pl.Series
    end: pl.Series


def replay_graph(nodes: pl.DataFrame) -> Times:
    """The times that follow from the nodes' edges, lags and lengths."""
    given = nodes.select("start_ns", "end_ns", *EDGES, "residual_ns", "meeting", "meeting_lag_ns")
    return Times(*unpack_columns(native_replay(pack_columns(given))).get_columns())


def measure_span(
    nodes: pl.DataFrame, times: Times, inside: pl.Series, anchors: pl.DataFrame | None = None
) -> int:
    """From the first start to the last end of the operations that count, of the slowest device.

    A first operation that begins later than it was recorded moves no begin: what is before it then
    is still part of the window. A device with an anchor (ANCHORS) begins so long after its end.
    """
    started = pl.select(pl.min_horizontal(times.start, nodes.get_column("start_ns"))).to_series()
    devices = nodes.select("rank", "device_id")
    held = anchors is not None and anchors.height > 0
    if not held and is_one_group(devices, devices.columns):
        last, first = times.end.filter(inside).max(), started.filter(inside).min()
        return int(last) - int(first) if isinstance(last, int) and isinstance(first, int) else 0
    spans = (
        devices.with_columns(start=started, end=times.end)
        .filter(inside)
        .group_by("rank", "device_id")
        .agg(begin=pl.col("start").min(), end=pl.col("end").max())
    )
    if anchors is not None and held:
        begin = times.end.gather(anchors.get_column("anchor")) + anchors.get_column("lead_ns")
        behind = anchors.select("rank", "device_id", held=begin)
        spans = spans.join(behind, on=["rank", "device_id"], how="left").with_columns(
            begin=pl.coalesce("held", "begin")
        )
    return int(spans.select((pl.col("end") - pl.col("begin")).max()).item() or 0)


def follow_guesses(nodes: pl.DataFrame) -> pl.DataFrame:
    """The nodes where an operation also waits for the one that it is guessed to have waited for.

    What lay between the two, and nothing explained, stays. Unchanged, they replay to the recording
    as well.
    """
    guessed = pl.col("guess").is_not_null() & pl.col("wait").is_null()
    guess = nodes.get_column("guess")
    ended = pl.lit(nodes.get_column("end_ns").gather(guess))
    residual = pl.min_horizontal("residual_ns", pl.col("start_ns") - ended)
    known = guessed & (residual >= 0)
    return nodes.with_columns(
        wait=pl.when(known).then("guess").otherwise("wait"),
        # What is left of the time between them is the wait's own: it goes on as it is.
        wait_lag_ns=pl.when(known).then(pl.col("start_ns") - ended).otherwise("wait_lag_ns"),
        residual_ns=pl.when(known).then(0).otherwise("residual_ns"),
    )


def is_op(nodes: pl.DataFrame) -> pl.Series:
    """Which nodes are device operations."""
    kind = nodes.get_column("kind")
    return (kind != "call") & (kind != "finish")


def select_ops(nodes: pl.DataFrame, ids: pl.Series) -> pl.Series:
    """Which nodes are these device operations, by id."""
    rows, _ = _find_ops(nodes, ids.drop_nulls().unique().sort())
    return mark_rows(rows, nodes.height)


def _find_ops(nodes: pl.DataFrame, ids: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The nodes of these device operations, and which of the ids each one's is."""
    rows = is_op(nodes).arg_true()
    places = find_rows(ids, nodes.get_column("ref_id").gather(rows))
    known = places.is_not_null()
    return rows.filter(known), places.filter(known)


def select_calls_of(nodes: pl.DataFrame, which: pl.Series) -> pl.Series:
    """The calls that launched some nodes (by mask), as a mask."""
    return mark_rows(nodes.get_column("launch").filter(which), nodes.height)


def _select_returns(nodes: pl.DataFrame, calls: pl.Series) -> pl.Series:
    """The returns of these calls (by mask), as a mask."""
    ref, rows = nodes.get_column("ref_id"), is_finish(nodes).arg_true()
    mine = ref.gather(rows).is_in(ref.filter(calls).implode())
    return mark_rows(rows.filter(mine), nodes.height)


def remove_ops(nodes: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """The nodes with some device operations, their calls, and the waits for them gone."""
    device, finish = is_op(nodes), is_finish(nodes)
    gone = select_ops(nodes, ids)
    # A call that launches something else too stays.
    calls = select_calls_of(nodes, gone) & ~select_calls_of(nodes, device & ~gone)
    own = calls | _select_returns(nodes, calls)
    wait = nodes.get_column("wait")
    unwait = ~device & gone.gather(wait).fill_null(value=False)
    # An allocation that comes behind one of them does its own work all the same.
    waits = finish & unwait & (nodes.get_column("end_ns") == nodes.get_column("start_ns"))
    ends = waits | (own & finish)
    # What nothing explains before an operation is not known to end with it; what its own call does
    # until it begins, such as copying to a buffer, is explained.
    empty = _empty_nodes(
        nodes,
        gone | own | waits,
        cut_lags=gone | ends,
        cut_residuals=_begin_in_calls(nodes, gone) | ends,
        unwait=unwait,
    )
    return _make_room(empty, gone)


def _begin_in_calls(nodes: pl.DataFrame, which: pl.Series) -> pl.Series:
    """Which of these operations (by mask) begin while their own calls run."""
    calls = nodes.get_column("launch").filter(which)
    returns = nodes.select("ref_id", "end_ns").filter(is_finish(nodes)).sort("ref_id")
    back = find_rows(returns.get_column("ref_id"), nodes.get_column("ref_id").gather(calls))
    call_end = pl.select(
        pl.max_horizontal(
            nodes.get_column("end_ns").gather(calls), returns.get_column("end_ns").gather(back)
        )
    ).to_series()
    begins = (nodes.get_column("start_ns").filter(which) <= call_end).fill_null(value=False)
    return mark_rows(which.arg_true().filter(begins), nodes.height)


def _make_room(nodes: pl.DataFrame, gone: pl.Series) -> pl.DataFrame:
    """The nodes where calls waited for room in a queue that some operations are no longer in.

    A call waited until an operation started that was so many places ahead of its own. Now an
    earlier one is as many places ahead, or there is room at once.
    """
    full = nodes.filter(is_finish(nodes) & pl.col("launch").is_not_null())
    if full.is_empty() or not gone.any():
        return nodes
    lane = ["rank", "device_id", "stream_id"]
    ops = (
        nodes.select(*lane, "node", "launch", stays=~gone)
        .filter(is_op(nodes))
        .with_columns(
            place=pl.int_range(pl.len()).over(lane),
            left=pl.col("stays").cast(pl.Int64).cum_sum().over(lane),
        )
    )
    begins = nodes.filter(pl.col("kind") == "call").select("ref_id", call="node")
    own = ops.drop_nulls("launch").unique("launch", keep="first", maintain_order=True)
    waits = (
        full.select("ref_id", finish="node", freed="launch")
        .join(begins, on="ref_id")
        .join(own.select(*lane, "place", "left", call="launch"), on="call")
        .join(ops.select(freed="node", freed_place="place"), on="freed")
        .with_columns(left=pl.col("left") - pl.col("place") + pl.col("freed_place"))
        .join(
            ops.filter("stays").select(*lane, "left", earlier="node"),
            on=[*lane, "left"],
            how="left",
            nulls_equal=True,
        )
    )
    launch = nodes.get_column("launch").clone()
    return nodes.with_columns(launch.scatter(waits["finish"], waits["earlier"]))


def remove_waits(nodes: pl.DataFrame, finishes: pl.Series) -> pl.DataFrame:
    """The nodes where some calls (by mask over their return) wait no longer and cost nothing."""
    return _empty_nodes(nodes, finishes, cut_lags=finishes, unwait=finishes)


def remove_sleeps(nodes: pl.DataFrame) -> pl.DataFrame:
    """The nodes where no thread sleeps until a host function tells it that its work is done."""
    sleeps = (pl.col("kind") == "call") & (pl.col("wait_by") == "callback")
    return nodes.with_columns(wait=pl.when(sleeps).then(None).otherwise("wait"))


def order_behind_waits(nodes: pl.DataFrame, finishes: pl.Series) -> pl.DataFrame:
    """The nodes where what was launched behind these waits comes behind what they waited for.

    A wait of the host orders its streams, too: without it an event has to. What follows on the
    stream that was waited for is behind it anyway; of another stream the first operation is told.
    """
    process = ["rank", "pid"]
    waits = nodes.filter(finishes, pl.col("wait").is_not_null())
    if waits.is_empty():
        return nodes
    waits = waits.select(*process, at="end_ns", known="node", waited="wait").sort("at")
    ops = nodes.filter(is_op(nodes), pl.col("launch").is_not_null())
    called = nodes.select(*process, at="start_ns")
    ops = ops.select("node", "prev", "wait", "start_ns", "stream_id", "device_id", "launch")
    ops = ops.hstack(take_rows(called, ops.get_column("launch"))).sort("at")
    ops = ops.join_asof(waits, on="at", by=process, check_sortedness=False).drop_nulls("known")
    last = pl.repeat(None, nodes.height, dtype=pl.UInt32, eager=True)
    last = last.scatter(ops.get_column("node"), ops.get_column("known"))
    lane = nodes.select(on_stream="stream_id", on_device="device_id", ended="end_ns")
    ops = ops.with_columns(before=last.gather(ops.get_column("prev"))).hstack(
        take_rows(lane, ops.get_column("waited"))
    )
    same = (pl.col("stream_id") == pl.col("on_stream")) & (
        pl.col("device_id") == pl.col("on_device")
    )
    told = ops.filter(
        pl.col("wait").is_null(),
        ~same.fill_null(value=False),
        ~pl.col("before").eq_missing(pl.col("known")),
        pl.col("waited") < pl.col("node"),
        pl.col("ended") <= pl.col("start_ns"),
    )
    rows = told.get_column("node")
    lag = told.select(pl.min_horizontal(pl.col("start_ns") - pl.col("ended"), WAIT_NS)).to_series()
    return nodes.with_columns(
        nodes.get_column("wait").scatter(rows, told.get_column("waited")),
        nodes.get_column("wait_lag_ns").scatter(rows, lag),
    )


def is_finish(nodes: pl.DataFrame) -> pl.Series:
    """Which nodes are returns of calls that wait."""
    return nodes.get_column("kind") == "finish"


def _empty_nodes(
    nodes: pl.DataFrame,
    nothing: pl.Series,
    *,
    cut_lags: pl.Series,
    unwait: pl.Series,
    cut_residuals: pl.Series | None = None,
) -> pl.DataFrame:
    """Nodes of no length; where asked without lags of their own, and without waits.

    `cut_residuals` are those without what nothing explains before them: those without lags.
    """
    residuals = cut_lags if cut_residuals is None else cut_residuals
    return nodes.with_columns(
        end_ns=pl.when(nothing).then("start_ns").otherwise("end_ns"),
        meeting=pl.when(nothing).then(None).otherwise("meeting"),
        prev_lag_ns=pl.when(cut_lags & pl.col("prev").is_not_null())
        .then(0)
        .otherwise("prev_lag_ns"),
        launch_lag_ns=pl.when(cut_lags).then(0).otherwise("launch_lag_ns"),
        residual_ns=pl.when(residuals & pl.any_horizontal(pl.col("prev", "launch").is_not_null()))
        .then(0)
        .otherwise("residual_ns"),
        wait=pl.when(unwait).then(None).otherwise("wait"),
        launch=pl.when(unwait & (pl.col("kind") == "finish")).then(None).otherwise("launch"),
    )


def scale_nodes(nodes: pl.DataFrame, factor: pl.Series) -> pl.DataFrame:
    """The nodes with each length (and transfer) times its factor, where that is not null."""
    length = pl.col("end_ns") - pl.col("start_ns")
    by = pl.lit(factor).fill_null(1.0)
    changed = pl.lit(factor).is_not_null()
    return nodes.with_columns(
        end_ns=pl.when(changed)
        .then(pl.col("start_ns") + (length * by).round().cast(pl.Int64))
        .otherwise("end_ns"),
        meeting_lag_ns=pl.when(changed)
        .then((pl.col("meeting_lag_ns") * by).round().cast(pl.Int64))
        .otherwise("meeting_lag_ns"),
    )


def scale_ops(nodes: pl.DataFrame, factors: pl.DataFrame) -> pl.DataFrame:
    """The nodes with some device operations' lengths times a factor: `ref_id` and `factor`."""
    factors = factors.drop_nulls("ref_id").sort("ref_id")
    rows, places = _find_ops(nodes, factors.get_column("ref_id"))
    nothing = pl.repeat(None, nodes.height, dtype=pl.Float64, eager=True)
    return scale_nodes(nodes, nothing.scatter(rows, factors.get_column("factor").gather(places)))


def shorten_thinking(nodes: pl.DataFrame, cut: pl.Series) -> pl.DataFrame:
    """The nodes with so many ns less between a call and the one before it."""
    less = pl.min_horizontal(pl.lit(cut), pl.col("prev_lag_ns"))
    return nodes.with_columns(
        prev_lag_ns=pl.when(pl.col("kind") == "call")
        .then(pl.col("prev_lag_ns") - less.fill_null(0))
        .otherwise("prev_lag_ns")
    )


def shorten_calls(nodes: pl.DataFrame, cut: pl.Series) -> pl.DataFrame:
    """The nodes with calls that take so many ns less."""
    return nodes.with_columns(end_ns=pl.col("end_ns") - cut)


def free_calls(nodes: pl.DataFrame, which: pl.Series) -> pl.DataFrame:
    """The nodes with some host calls (by mask) that cost nothing and wait for nothing."""
    mine = ~is_op(nodes) & which
    return _empty_nodes(
        nodes, mine, cut_lags=mine & is_finish(nodes), unwait=mine & is_finish(nodes)
    )
