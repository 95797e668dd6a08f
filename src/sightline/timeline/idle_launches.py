"""Idle gaps and the launch that ends each: cut there into what the host owes and what is queued."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.latest import find_latest, find_next
from sightline.core.algebra.lookup import find_rows, match_names, number_groups, take_rows
from sightline.core.algebra.order import sort_rows
from sightline.core.model.run import Run
from sightline.timeline.coverage import list_lost_launches

# Call begin to kernel start on an idle device, where the recording's own launches do not show: the
# upper end of what is usual. Measured with `sightline stats kernel_launches` at queue depth 0 on
# TraceLens's three H100 recordings: medians 6.5 to 7.5 µs.
FALLBACK_LATENCY_NS = 10_000
# A wait for an event of what had ended takes a few µs (replay/graph.py: NO_LONGER_NS).
_MOST_EVENT_WAIT_NS = 50_000
# A call that asks for pages of unified memory; the moves that it brings name no call.
_PREFETCH = r"^(?:cuda|cu|hip)MemPrefetch"

_BY = ["rank", "device_id"]
_THREAD = ["rank", "pid", "tid"]


def measure_launch_latency(ops: pl.DataFrame, host: pl.DataFrame) -> int:
    """The recording's own time from a launch call's begin to the start on an idle device, ns.

    The 10th percentile over all launches, since a queue only ever adds to it; where every launch
    queues even that is not a latency, so it is never taken for more than the usual upper end.
    """
    called = find_rows(host.get_column("host_op_id"), ops.get_column("launch_id"))
    delays = ops.get_column("start_ns") - host.get_column("start_ns").gather(called)
    delays = delays.filter((ops.get_column("kind") == "kernel") & (delays > 0))
    if delays.len() < 10:
        return FALLBACK_LATENCY_NS
    tenth = int(delays.quantile(0.1, interpolation="lower") or FALLBACK_LATENCY_NS)
    return min(tenth, FALLBACK_LATENCY_NS)


def find_prefetches(ops: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """The operations, where the first page that a prefetch brought has that call for its launch."""
    asked = pl.col("migration_cause").eq_missing("user prefetch") & pl.col("launch_id").is_null()
    rows = ops.select(asked).to_series().arg_true()
    ops = ops.drop("migration_cause")
    if rows.is_empty():
        return ops
    calls = host.filter(match_names(host, _PREFETCH))
    moves = take_rows(ops, rows).with_columns(row=rows)
    last = find_latest(moves, "start_ns", calls, "start_ns", ["rank"])
    first = (
        moves.with_columns(call=calls.get_column("host_op_id").gather(last))
        .drop_nulls("call")
        .sort("start_ns", "row")
        .unique("call", keep="first", maintain_order=True)
    )
    launch = ops.get_column("launch_id").scatter(first.get_column("row"), first.get_column("call"))
    return ops.with_columns(launch_id=launch)


def find_neighbours(found: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Gaps with the operation that ends each one, and the one that ended last before it."""
    after = find_next(found, "end_ns", ops, "start_ns", _BY, ties=["device_op_id"])
    before = find_latest(found, "start_ns", ops, "end_ns", _BY, ties=["device_op_id"])
    in_order = sort_rows(ops, ["start_ns", "device_op_id"])
    names, _ = number_groups(in_order, [*_BY, "name"])
    ids = in_order.get_column("device_op_id").filter(names.is_first_distinct())
    is_first = ops.get_column("device_op_id").is_in(ids.implode())
    ending = ops.select("launch_id", after_id="device_op_id", after="name").with_columns(
        is_first=is_first & (ops.get_column("kind") == "kernel")
    )
    return found.hstack(take_rows(ending, after)).hstack(
        take_rows(ops.select(before_id="device_op_id", launch_before="launch_id"), before)
    )


def find_lost_launches(run: Run, found: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """Gaps with `lost_ns`: when work was launched in between that is not in the recording.

    It was launched behind the operation before the gap, and ahead of that behind it: the device may
    have run it all the while.
    """
    lost = list_lost_launches(run)
    if lost.is_empty():
        return found.with_columns(lost_ns=pl.lit(None, pl.Int64))
    earlier = find_rows(host.get_column("host_op_id"), found.get_column("launch_before"))
    called = found.with_columns(called_before_ns=host.get_column("start_ns").gather(earlier))
    row = find_next(called, "called_before_ns", lost, "start_ns", ["rank"])
    found = found.with_columns(lost_ns=lost.get_column("start_ns").gather(row))
    between = pl.col("lost_ns") < pl.col("call_ns")
    return found.with_columns(
        lost_ns=pl.when(between).then(pl.max_horizontal("lost_ns", "start_ns"))
    ).with_columns(lost_ns=pl.when(pl.col("lost_ns") < pl.col("end_ns")).then("lost_ns"))


def waits_for_unrecorded(ops: pl.DataFrame, told: pl.Series) -> pl.Expr:
    """Whether a queued operation waits long for an event, and nothing recorded can be what of.

    Nothing runs on its device in a gap; where the rank has another one, the event may be of that.
    """
    devices = ops.select(_BY).unique().group_by("rank").len()
    alone = devices.filter(pl.col("len") == 1).get_column("rank")
    return (
        pl.lit(told)
        & pl.col("rank").is_in(alone.implode())
        & (pl.col("queued_ns") >= _MOST_EVENT_WAIT_NS)
    )


def cut_at_launch(found: pl.DataFrame, latency_ns: int) -> pl.DataFrame:
    """Gaps with `host_end_ns`, up to which the host is late, and what lies behind the call."""
    # Twice the usual latency: half of all launches take longer than the median.
    usual = 2 * latency_ns
    start, end, call, back = (pl.col(c) for c in ("start_ns", "end_ns", "call_ns", "call_end_ns"))
    launched = pl.max_horizontal(start, call)  # from here on the operation is launched
    returned = pl.max_horizontal(launched, pl.min_horizontal(back, end))
    found = found.with_columns(
        in_graph=(pl.col("launch_id") == pl.col("launch_before")).fill_null(value=False),
        is_late=(call >= start).fill_null(value=False),
        in_call_ns=returned - launched,
        after_ns=end - returned,
    )
    known = pl.col("launch_id").is_not_null() & ~pl.col("in_graph")
    slow = (known & (pl.col("in_call_ns") > usual)).fill_null(value=False)
    waits = (known & (pl.col("after_ns") > usual)).fill_null(value=False)
    late = known & pl.col("is_late")
    whole = end - start
    lost, lost_at = pl.col("lost_ns").is_not_null(), pl.col("lost_ns")
    found = found.with_columns(
        slow=slow,
        # What a launch usually takes belongs to what comes before it.
        slow_ns=pl.when(slow)
        .then(pl.when(waits).then("in_call_ns").otherwise(end - launched))
        .otherwise(0),
        queued_ns=pl.when(~known)
        .then(whole)
        .when(late | slow)
        .then(pl.when(waits).then("after_ns").otherwise(0))
        .otherwise(whole),
        on_its_way=~waits & (back > start),
        host_end_ns=pl.when(~late)
        .then(start)
        .when(slow)
        .then(launched)
        .when(waits)
        .then(returned)
        .otherwise(end),
    ).drop("in_call_ns", "after_ns")
    # From the launch of what was not recorded on nobody knows.
    since = pl.when("is_late").then(pl.min_horizontal("host_end_ns", lost_at)).otherwise(start)
    return found.with_columns(
        slow=pl.col("slow") & ~lost,
        slow_ns=pl.when(lost).then(0).otherwise("slow_ns"),
        host_end_ns=pl.when(lost).then(since).otherwise("host_end_ns"),
        queued_ns=pl.when(lost).then(end - since).otherwise("queued_ns"),
        on_its_way=pl.col("on_its_way") & ~lost,
    )


def is_told_to_wait(
    found: pl.DataFrame, ops: pl.DataFrame, host: pl.DataFrame, waits: pl.DataFrame
) -> pl.Series:
    """Whether the stream of the gap's last operation was told to wait for an event before it.

    The recording seldom says which stream a wait is for, so a wait counts for the first launch
    that follows it on the same thread.
    """
    if waits.is_empty():
        return pl.repeat(value=False, n=found.height, eager=True)
    launched = find_rows(host.get_column("host_op_id"), ops.get_column("launch_id")).unique()
    columns = [*_THREAD, "host_op_id", "start_ns"]
    launches = take_rows(host.select(columns), launched.drop_nulls())
    events = pl.concat(
        [
            waits.select(*columns).with_columns(launches=pl.lit(value=False)),
            launches.with_columns(launches=pl.lit(value=True)),
        ]
    )
    # Of a wait and a launch at one moment the wait was the first.
    events = events.sort(*_THREAD, "start_ns", "launches", maintain_order=True)
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(1)) for c in _THREAD)
    after_wait = events.filter(
        "launches", same & ~pl.col("launches").shift(1, fill_value=True)
    ).get_column("host_op_id")
    return found.get_column("launch_id").is_in(after_wait.implode()).fill_null(value=False)
