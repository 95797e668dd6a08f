"""Calls that wait for the device: for which operation, with which lag, at what own cost."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import is_one_group
from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import Texts, take_rows
from sightline.core.algebra.order import sort_rows
from sightline.timeline.api_calls import allocates, may_wait

# Where a recording's own events do not show: the return of a wait, see `graph`.
RETURN_NS = 3_000
# HolisticTraceAnalysis: a stream takes 1022 to 1024 operations before launches block.
QUEUE = 1_000

LANE = ["rank", "device_id", "context_id", "stream_id"]
THREAD = ["rank", "pid", "tid"]
# A node's own number before sorting: its row's id and which of the row's nodes it is.
BEGIN, FINISH, OP = 0, 1, 2


def list_waits(calls: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Calls that wait: for which operation's end or start, with which lag, at what own cost."""
    names = Texts(calls.get_column("name"))
    allocating = allocates(names)
    found = calls.with_columns(allocates=allocating).filter(may_wait(names) | allocating)
    own = (
        ops.filter(pl.col("kind").is_in(["memcpy", "memset"]))
        .drop_nulls("call_id")
        .unique("call_id", keep="first")
        .select(host_op_id="call_id", own_id="device_op_id", own_start="start_ns", own_end="end_ns")
    )
    found = found.join(own, on="host_op_id", how="left").with_columns(
        # A copy that starts only after its call has returned is not waited for.
        waits_own=(pl.col("own_start") < pl.col("end_ns")).fill_null(value=False)
    )
    copies = found.filter("waits_own").with_columns(target="own_id", target_end="own_end")
    blocking = found.filter(pl.col("own_id").is_null())
    others = _find_awaited(blocking, ops)
    every = pl.concat([copies, others.select(copies.columns)]).drop_nulls("target")
    waited = pl.col("target_end") > pl.col("start_ns")
    usual = every.filter(waited).select(pl.col("end_ns") - pl.col("target_end")).to_series()
    usual_ns = int(usual.filter(usual > 0).quantile(0.1, "lower") or RETURN_NS)
    lag = pl.col("end_ns") - pl.col("target_end")
    length = pl.col("end_ns") - pl.col("start_ns")
    # What the call takes with nothing to wait for: its shortest kin, if that one did not wait.
    cost = length.filter(~waited).min().over("name").fill_null(RETURN_NS)
    tail = pl.max_horizontal(
        pl.col("end_ns") - pl.max_horizontal("target_end", "start_ns") - usual_ns, 0
    )
    return pl.concat(
        [
            every.select(
                "host_op_id",
                *THREAD,
                "device_id",
                "name",
                "start_ns",
                "end_ns",
                own_ns=pl.when(waited).then(pl.min_horizontal(cost, length)).otherwise(length),
                target_uid=pl.col("target") * 4 + OP,
                lag_ns=pl.when(waited).then(lag).otherwise(pl.min_horizontal(lag, usual_ns)),
                tail_ns=pl.when("allocates").then(tail).otherwise(0),
                by_start=pl.lit(value=False),
            ),
            _find_full_queue(calls, ops),
        ],
        how="diagonal",
    )


def _find_awaited(blocking: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """What a synchronizing call waits for: the last to end of what was launched before it.

    A stream or event is not always named in a recording: where that operation ended after the
    call, the call was about another stream, and what ended last before its return is taken.
    """
    by = ["rank", "device_id"]
    called = _date_launches(blocking, ops).select(*by, "call_ns", "end_ns", "device_op_id")
    launched = sort_rows(called, ["call_ns", "end_ns"])
    reach = pl.col("end_ns").cum_max()
    last = pl.when(pl.col("end_ns") == pl.col("latest")).then("device_op_id").forward_fill()
    if not is_one_group(launched, by):
        reach, last = reach.over(by), last.over(by)
    launched = launched.select(*by, "call_ns", "device_op_id", "end_ns", latest=reach).with_columns(
        latest_id=last
    )
    ended = called.select(
        *by, t="end_ns", ended="end_ns", ended_id="device_op_id", ended_call="call_ns"
    )
    ended = sort_rows(ended, ["t"])
    before = find_latest(blocking, "start_ns", launched, "call_ns", by)
    within = find_latest(blocking, "end_ns", ended, "t", by)
    return (
        blocking.hstack(take_rows(launched.select("latest", "latest_id"), before))
        .hstack(take_rows(ended.select("ended", "ended_id", "ended_call"), within))
        .with_columns(known=pl.col("latest") <= pl.col("end_ns"))
        .with_columns(
            target=pl.when("known")
            .then("latest_id")
            .when(pl.col("ended_call") < pl.col("start_ns"))
            .then("ended_id"),
            target_end=pl.when("known").then("latest").otherwise("ended"),
        )
    )


def _date_launches(blocking: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """The operations whose launch is recorded, and those that were launched before the recording.

    The latter run ahead of all whose launch the recording has; their launch is put before every
    call that waits. When one was launched whose call was lost later on, nobody knows.
    """
    known = pl.when(pl.col("call_ns").is_not_null()).then("start_ns")
    first = known.min().over("rank", "device_id")
    before = blocking.get_column("start_ns").min()
    launch = pl.when(pl.col("start_ns") < first).then(pl.lit(before, pl.Int64) - 1)
    return ops.with_columns(pl.col("call_ns").fill_null(launch)).drop_nulls("call_ns")


def _find_full_queue(calls: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Launch calls that waited for room in the queue: until an operation of the stream started."""
    launched = ops.drop_nulls("call_ns")
    length = pl.col("call_end_ns") - pl.col("call_ns")
    # What a launch takes where there is room: the shortest tenth of the calls.
    usual = int(launched.filter("first").select(length.quantile(0.1, "lower")).item() or 0)
    if launched.height <= QUEUE or not launched.select((length > 2 * usual).any()).item():
        launched = launched.clear()
    launched = launched.sort("call_ns", "device_op_id")
    # So many are queued if the one that many places ahead had not started at the call.
    ahead = pl.col("start_ns").shift(QUEUE).over(LANE)
    full = launched.filter(length > 2 * usual, ahead > pl.col("call_ns"))
    room = find_latest(full, "call_end_ns", ops, "start_ns", LANE)
    found = (
        full.drop("prev_id")
        .hstack(take_rows(ops.select(freed="start_ns", freed_id="device_op_id"), room))
        .sort("call_end_ns")
        .filter(pl.col("freed") > pl.col("call_ns"))
        .unique("call_id", keep="first")
    )
    return found.join(
        calls.select("host_op_id", *THREAD, "name"),
        left_on=["call_id", "rank"],
        right_on=["host_op_id", "rank"],
    ).select(
        *THREAD,
        "device_id",
        "name",
        host_op_id="call_id",
        start_ns="call_ns",
        end_ns="call_end_ns",
        own_ns=pl.lit(usual, pl.Int64),
        target_uid=pl.col("freed_id") * 4 + OP,
        lag_ns=pl.col("call_end_ns") - pl.col("freed"),
        tail_ns=pl.lit(0, pl.Int64),
        by_start=pl.lit(value=True),
    )
