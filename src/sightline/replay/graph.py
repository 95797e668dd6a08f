"""What each event of a run waited for: the graph that a replay goes through.

Nodes are host calls, ends of host calls that wait ("finish"), and device operations. Each starts
at the latest of up to three moments, plus what the recording leaves unexplained (`residual_ns`):

prev    host: the call of this device's threads that ended last, or the work from before the
        recording that the device was done with before the first; device: the operation before it
        on its stream; finish: the begin of its own call
launch  device: the begin of its launch call; finish: the start of the operation that made room
        in a full queue
wait    finish: the operation that the call waits for; device: the operation of another stream
        that it was told to wait for; host: what the thread polled for (replay/polling.py), or slept
        until a host function woke it (`wait_by` is "callback": timeline/callback_waits.py)

A lag is what usually lies between the two (launch latency, gap on a stream, return of a wait), but
never more than was recorded, so that a replay without a change gives the recording to the ns.

What is assumed, since recordings do not say it: threads of one process that launch on one device
hand over to each other (as PyTorch's autograd does); an operation that is launched right behind a
cudaStreamWaitEvent waits for what ended last on other streams before it started, of what had been
launched before it (`wait_by` is "event"); one that was launched and had its stream to itself, and
starts right when another stream's operation ends, waited for that one ("timing"): the call that
told it so may be another thread's, or not recorded. If it starts some time after the last such end,
that one is the best `guess`: what it waited for ended no later, since it did start. The critical
path follows guesses; a replay does not. A thread that launches nothing and waits while those that
launch are silent waits for them (timeline/lent_waits.py). Pages of unified memory that move without
a launch move when somebody touches them: as long behind the last of their process's calls and of
the moves before them as was recorded.
"""

from __future__ import annotations

import polars as pl

from sightline._native import edges as native_edges
from sightline.core.algebra.arrow import pack_columns, unpack_columns
from sightline.core.algebra.intervals import is_one_group
from sightline.core.algebra.latest import find_latest, find_next
from sightline.core.algebra.lookup import Texts, find_rows, number_groups, select_varying, take_rows
from sightline.core.model.columns import DType
from sightline.core.model.constants import keep_single_values
from sightline.core.model.run import Run
from sightline.core.model.store import ID_SHIFT
from sightline.replay.polling import find_polled
from sightline.replay.waits import BEGIN, FINISH, LANE, OP, RETURN_NS, THREAD, list_waits
from sightline.timeline.api_calls import orders_streams
from sightline.timeline.callback_waits import list_callback_waits
from sightline.timeline.collectives import match_collectives
from sightline.timeline.lent_waits import lend_waits

# Where a recording's own events do not show. Launch: see idle_gaps. Stream gap and wait: NVIDIA,
# "Getting Started with CUDA Graphs" (2019): 1 to 4 µs between kernels of one stream.
LAUNCH_NS, GAP_NS, WAIT_NS = 10_000, 1_000, 2_000
# The longest that is taken for a gap of the hardware's own: a launch on an idle device takes no
# longer.
MOST_GAP_NS = LAUNCH_NS

# An operation is late where it could have started so much earlier: twice the slowest launch. What
# ended right before its start is what it waited for: five times a usual wait, or a tenth of what it
# is late if that is more. Starts of collectives were seen 10 to 20 µs behind what they waited for
# (TraceLens's MI300 recording of DDP), and 50 µs is no wait any more.
LATE_NS, RIGHT_BEFORE_NS, NO_LONGER_NS = 2 * LAUNCH_NS, 5 * WAIT_NS, 50_000

# How many operations to look back for what an operation waited for, of its own stream among them
# (ours): by timing only the last ones count, of an event those of a layer may have ended since.
NEAR_BACK, FAR_BACK = 4, 32

_IS_ELSEWHERE = (pl.col("other") != pl.col("stream_id")) | (
    pl.col("other_device") != pl.col("device_id")
)


# How a move of unified memory is called (CUPTI's copy kinds), and one that the host asks for.
_PAGE_MOVE, READ_BACK = "Unified", "Unified Device-to-Host"

_WAIT_BY = pl.Enum(["event", "timing", "guess", "callback"])
_WAITS: dict[str, DType] = {
    "device_op_id": pl.Int64,
    "event_id": pl.Int64,
    "event_end": pl.Int64,
    "wait_by": _WAIT_BY,
}
# A node's uid is four times its row's id and its kind; ids of recording k start at k << ID_SHIFT.
_RECORDING = 4 << ID_SHIFT
EDGES = ("prev", "launch", "wait")
# What a node is: a call, its return, or the kind of a device operation (tables/device_ops.py).
KINDS = ("call", "finish", "kernel", "memcpy", "memset", "graph", "other")
# What is asked of device operations and host calls.
_OP = ("device_op_id", *LANE, "kind", "name", "start_ns", "end_ns", "launch_id")
_CALL = ("host_op_id", *THREAD, "name", "start_ns", "end_ns", "layer")
PROCESS = ["rank", "pid"]


def list_nodes(run: Run) -> pl.DataFrame:
    """The nodes in an order in which everything comes after what it waits for.

    The columns of the analysis `dependencies`, in half of its memory: `kind` and `wait_by` are
    enumerations, names categories, and nodes uint32. Raises MissingDataError without device_ops.
    """
    return run.once(_build_graph)


def _build_graph(run: Run) -> pl.DataFrame:
    run.require("dependencies", ["device_ops"])
    ops = run.table("device_ops", _OP)
    calls = lend_waits(run, run.table("host_ops", _CALL))
    sleeps = list_callback_waits(run)
    return _order_nodes(_list_nodes(ops, calls, run.table("collectives"), sleeps))


def _list_nodes(
    device_ops: pl.DataFrame,
    host_ops: pl.DataFrame,
    collectives: pl.DataFrame,
    sleeps: pl.DataFrame,
) -> pl.DataFrame:
    """The nodes with what each waits for, by uid; what they are made of is given back here."""
    kinds = device_ops.get_column("kind").unique().sort().to_list()
    ops = device_ops.with_columns(
        pl.col("kind").cast(pl.Enum([*KINDS, *(k for k in kinds if k not in KINDS)])),
        pl.col("name").cast(pl.Categorical),
    )
    # A recording that names no processes is of one.
    host_ops = host_ops.with_columns(pl.col("pid").fill_null(0))
    calls = _list_calls(host_ops, ops)
    ops = _add_launch(ops, calls, host_ops)
    calls, polled = find_polled(calls, ops)
    polled = _add_sleeps(polled, sleeps, calls)
    waits = list_waits(calls, ops)
    split = _mark_split(calls, waits)
    kind = ops.schema["kind"]
    return pl.concat(
        [
            _follow_earlier(_make_host_nodes(split, polled), ops).with_columns(
                kind=pl.lit("call", kind)
            ),
            _make_finish_nodes(waits).with_columns(kind=pl.lit("finish", kind)),
            _make_op_nodes(_follow_touch(ops, split), calls, collectives),
        ],
        how="diagonal",
    )


def _list_calls(host_ops: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """The outermost API calls of the threads that launch, each with its thread's device.

    In order of thread and time.
    """
    api = (
        host_ops.select("host_op_id", *THREAD, "name", "start_ns", "end_ns", "layer")
        .filter(pl.col("layer").is_in(["runtime", "driver"]))
        .drop("layer")
        .with_columns(pl.col("name").cast(pl.Categorical))
    )
    launches = find_rows(api.get_column("host_op_id"), ops.get_column("launch_id"))
    home = (
        take_rows(api.select(THREAD), launches)
        .with_columns(ops.get_column("device_id"))
        .filter(launches.is_not_null())
        .group_by(*THREAD, "device_id")
        .agg(n=pl.len())
        .sort("n", "device_id", descending=[True, False])
        .unique(THREAD, keep="first", maintain_order=True)
        .drop("n")
    )
    reach = pl.col("end_ns").cum_max().shift(1)
    if home.height == 1 and is_one_group(api, THREAD):
        device = home.item(0, "device_id")
        api = api.with_columns(device_id=pl.lit(device, pl.Int64)).sort("start_ns", "host_op_id")
    else:
        on = select_varying(THREAD, api, home)
        api = api.join(
            home.select(*on, "device_id"), on=on, nulls_equal=True, maintain_order="left"
        )
        api = api.sort(*THREAD, "start_ns", "host_op_id", maintain_order=True)
        reach = reach.over(select_varying(THREAD, api))
    return api.filter((pl.col("start_ns") >= reach).fill_null(value=True))


def _add_launch(ops: pl.DataFrame, calls: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """Operations with their outermost call's begin and end, previous operation and gap."""
    span = ["host_op_id", "start_ns", "end_ns"]
    own = find_rows(calls.get_column("host_op_id"), ops.get_column("launch_id"))
    within = own.is_null() & ops.get_column("launch_id").is_not_null()
    if within.any():  # launches inside another call: that one is what the thread was in
        inner = (
            take_rows(
                host.select(*THREAD, t="start_ns"),
                find_rows(host.get_column("host_op_id"), ops.get_column("launch_id")),
            )
            .with_columns(row=pl.int_range(pl.len()))
            .filter(within)
        )
        outer = find_latest(inner, "t", calls, "start_ns", THREAD)
        own = own.scatter(inner.get_column("row"), outer)
    found = take_rows(calls.select(*span, "pid"), own).rename(
        {"host_op_id": "call_id", "start_ns": "call_ns", "end_ns": "call_end_ns"}
    )
    by_time = ("start_ns", "end_ns", "device_op_id")
    ops = ops.hstack(found).sort(by_time, maintain_order=True)
    # Without a launch in the recording: the process that launches on the device, or on another.
    if ops.get_column("pid").null_count():
        for place in (["rank", "device_id"], ["rank"]):
            ops = ops.with_columns(pl.col("pid").fill_null(pl.col("pid").max().over(place)))
        ops = ops.with_columns(pl.col("pid").fill_null(0))
    stream, _ = number_groups(ops, LANE)
    before = _find_row_before(stream)
    names = {"end_ns": "prev_end_ns", "device_op_id": "prev_id", "call_id": "prev_call"}
    previous = take_rows(ops.select(*names), before).rename(names)
    return ops.hstack(previous).with_columns(first=pl.col("call_id").is_first_distinct())


def _find_row_before(group: pl.Series) -> pl.Series:
    """For each row the one before it that has the same value, or null."""
    rows = group.alias("group").to_frame().with_columns(row=pl.int_range(pl.len()))
    return rows.select(pl.col("row").shift(1).over("group")).to_series()


def _make_host_nodes(calls: pl.DataFrame, polled: pl.DataFrame) -> pl.DataFrame:
    """The begin of every call, behind the call that ended last on its device's threads.

    One that comes after a wait by polling is behind what was waited for, too.
    """
    calls = calls.join(polled, on="host_op_id", how="left", maintain_order="left")
    waited = pl.col("target_id").is_not_null()
    lag = pl.col("start_ns") - pl.col("prev_end")
    chain = ["rank", "pid", "device_id"]
    ended = _list_ends(calls, chain)
    before = find_latest(calls, "start_ns", ended, "t", chain, ties=["prev_uid"])
    return calls.hstack(take_rows(ended.select("prev_end", "prev_uid"), before)).select(
        *THREAD,
        "device_id",
        "name",
        "start_ns",
        ref_id="host_op_id",
        uid=pl.col("host_op_id") * 4 + BEGIN,
        end_ns=pl.when("split").then("start_ns").otherwise("end_ns"),
        prev_uid="prev_uid",
        prev_lag_ns=pl.when(waited)
        .then(pl.coalesce((lag - pl.col("held_ns")).clip(0), pl.min_horizontal(lag, RETURN_NS)))
        .otherwise(lag),
        wait_uid=pl.col("target_id") * 4 + OP,
        wait_lag_ns=pl.col("start_ns") - pl.col("target_end"),
        wait_by=pl.when(pl.col("held_ns").is_not_null())
        .then(pl.lit("callback", _WAIT_BY))
        .when(waited)
        .then(pl.lit("timing", _WAIT_BY)),
        turn=pl.lit(2, pl.Int8),
    )


def _add_sleeps(polled: pl.DataFrame, sleeps: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """What was polled for, and the calls behind waits for a host function, with their `held_ns`.

    So long the thread slept between the call before it and this one.
    """
    polled = polled.with_columns(held_ns=pl.lit(None, pl.Int64))
    if sleeps.is_empty():
        return polled
    sleeps = sleeps.with_columns(pl.col("pid").fill_null(0))
    after = take_rows(
        calls.select(call="host_op_id"), find_next(sleeps, "end_ns", calls, "start_ns", THREAD)
    )
    told = (
        sleeps.with_columns(after, held_ns=pl.col("end_ns") - pl.col("start_ns"))
        .drop_nulls("call")
        .sort("end_ns")
        .unique("call", keep="last", maintain_order=True)
        .select("target_id", "target_end", "held_ns", host_op_id="call")
    )
    return pl.concat([told.select(polled.columns), polled]).unique("host_op_id", keep="first")


def _follow_earlier(host: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """The first call of a device's threads, behind work that was launched before the recording.

    Only where the device had nothing to do by then: what the host did meanwhile it did without a
    call, as between any two.
    """
    device = ["rank", "device_id"]
    rows = host.get_column("prev_uid").is_null().arg_true()
    if rows.is_empty() or not ops.get_column("call_id").null_count():
        return host
    first = host[rows].select(*device, "start_ns", row=pl.lit(rows)).sort("start_ns", "row")
    first = first.unique(device, keep="first", maintain_order=True)
    ended = (
        ops.join(first.rename({"start_ns": "called_ns"}), on=device)
        .filter(pl.col("start_ns") < pl.col("called_ns"))
        .sort("end_ns", "device_op_id")
        .unique(device, keep="last", maintain_order=True)
        .filter(
            pl.col("call_id").is_null() & (pl.col("end_ns") + LATE_NS < pl.col("called_ns")),
        )
    )
    at = ended.get_column("row")
    uid, lag = host.get_column("prev_uid"), host.get_column("prev_lag_ns")
    return host.with_columns(
        prev_uid=uid.scatter(at, ended.get_column("device_op_id") * 4 + OP),
        prev_lag_ns=lag.scatter(at, ended.get_column("called_ns") - ended.get_column("end_ns")),
    )


def _mark_split(calls: pl.DataFrame, finishes: pl.DataFrame) -> pl.DataFrame:
    """The calls, and whether each is `split` into its begin and its return."""
    waits = finishes.select("host_op_id").unique().with_columns(split=pl.lit(value=True))
    return calls.join(waits, on="host_op_id", how="left").with_columns(
        pl.col("split").fill_null(value=False)
    )


def _list_ends(calls: pl.DataFrame, chain: list[str]) -> pl.DataFrame:
    """When each call has ended, and the node that ends it: chain, t, prev_end, prev_uid."""
    return calls.select(
        *chain,
        # A call of no length must not come before itself.
        t=pl.max_horizontal("end_ns", pl.col("start_ns") + 1),
        prev_end="end_ns",
        prev_uid=pl.col("host_op_id") * 4 + pl.when("split").then(FINISH).otherwise(BEGIN),
    )


def _follow_touch(ops: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The operations with `touch_uid` and `touch_lag_ns`: behind what a move of pages comes.

    Null for all others. What the host does until it touches the page, or a kernel that a call of it
    launched, stays as long as it was.
    """
    ops = ops.with_row_index("row")
    moves = ops.filter((pl.col("kind") == "memcpy") & pl.col("call_id").is_null())
    moves = moves.filter(pl.col("name").cast(pl.String).str.contains(_PAGE_MOVE))
    if moves.is_empty():
        nothing = pl.lit(None, pl.Int64)
        return ops.drop("row").with_columns(touch_uid=nothing, touch_lag_ns=nothing)
    ended = _list_ends(calls, PROCESS)
    last = find_latest(moves, "start_ns", ended, "t", PROCESS, ties=["prev_uid"])
    moves = moves.hstack(take_rows(ended.select("prev_end", "prev_uid"), last))
    is_host = pl.col("prev_end") >= pl.col("prev_end_ns").fill_null(pl.col("prev_end"))
    gap = pl.col("start_ns") - pl.col("prev_end_ns")
    touched = moves.select(
        "row",
        touch_uid=pl.when(is_host).then("prev_uid").otherwise(pl.col("prev_id") * 4 + OP),
        touch_lag_ns=pl.when(is_host).then(pl.col("start_ns") - pl.col("prev_end")).otherwise(gap),
    )
    return ops.join(touched, on="row", how="left", maintain_order="left").drop("row")


def _make_finish_nodes(finishes: pl.DataFrame) -> pl.DataFrame:
    """The return of a call that waits."""
    return finishes.unique("host_op_id", keep="last").select(
        *THREAD,
        "device_id",
        "name",
        ref_id="host_op_id",
        uid=pl.col("host_op_id") * 4 + FINISH,
        # An allocation that waited works on after the wait: that work is the node's length.
        start_ns=pl.col("end_ns") - pl.col("tail_ns"),
        end_ns="end_ns",
        prev_uid=pl.col("host_op_id") * 4 + BEGIN,
        prev_lag_ns=pl.col("own_ns") - pl.min_horizontal("own_ns", "tail_ns"),
        launch_uid=pl.when("by_start").then("target_uid"),
        launch_lag_ns=pl.when("by_start").then("lag_ns"),
        wait_uid=pl.when(~pl.col("by_start")).then("target_uid"),
        wait_lag_ns=pl.when(~pl.col("by_start")).then(pl.col("lag_ns") - pl.col("tail_ns")),
        turn=pl.lit(1, pl.Int8),
    )


def _make_op_nodes(
    ops: pl.DataFrame, calls: pl.DataFrame, collectives: pl.DataFrame
) -> pl.DataFrame:
    """Device operations, behind their stream, their launch and their event."""
    gap, delay = pl.col("start_ns") - pl.col("prev_end_ns"), pl.col("start_ns") - pl.col("call_ns")
    queued = ops.filter((pl.col("call_end_ns") < pl.col("prev_end_ns")) & (gap >= 0))
    # Where every operation of a stream waits for another stream's, no gap is a usual one.
    gap_ns = min(int(queued.select(gap.quantile(0.1, "lower")).item() or GAP_NS), MOST_GAP_NS)
    idle = ops.filter("first", (pl.col("call_ns") >= pl.col("prev_end_ns")) & (delay > 0))
    latency = idle.group_by("kind").agg(latency_ns=delay.quantile(0.1, "lower").cast(pl.Int64))
    kinds, known = ops.get_column("kind"), dict(latency.iter_rows())
    assert isinstance(kinds.dtype, pl.Enum)
    of_kind = [min(known.get(k) or LAUNCH_NS, LAUNCH_NS) for k in kinds.dtype.categories]
    latencies = pl.Series(of_kind, dtype=pl.Int64).gather(kinds.to_physical())
    ops = ops.with_columns(latency_ns=latencies)
    told = _find_events(ops, calls)
    rest = ops.join(told, on="device_op_id", how="anti")
    waits = pl.concat([told, _infer_waits(rest, ops, gap_ns)])
    ops = ops.join(waits, on="device_op_id", how="left")
    ops = ops.join(match_collectives(ops, collectives), on="device_op_id", how="left")
    is_guess = pl.col("wait_by") == "guess"
    same_graph = (pl.col("call_id") == pl.col("prev_call")).fill_null(value=False)
    return ops.select(
        "rank",
        "device_id",
        "stream_id",
        "name",
        "start_ns",
        "end_ns",
        kind="kind",
        ref_id="device_op_id",
        uid=pl.col("device_op_id") * 4 + OP,
        prev_uid=pl.coalesce("touch_uid", pl.col("prev_id") * 4 + OP),
        prev_lag_ns=pl.coalesce(
            "touch_lag_ns",
            pl.when(same_graph).then(gap).otherwise(pl.min_horizontal(gap, gap_ns)),
        ),
        launch_uid=pl.col("call_id") * 4 + BEGIN,
        launch_lag_ns=pl.min_horizontal(delay, "latency_ns"),
        wait_uid=pl.when(~is_guess).then(pl.col("event_id") * 4 + OP),
        wait_lag_ns=pl.when(~is_guess).then(
            pl.min_horizontal(pl.col("start_ns") - pl.col("event_end"), WAIT_NS)
        ),
        wait_by=pl.when(~is_guess).then("wait_by"),
        guess_uid=pl.when(is_guess).then(pl.col("event_id") * 4 + OP),
        # Until its launch call returns, a kernel may not have been handed over. The call of a copy
        # may itself wait until the copy is done, and so for what the copy waits for.
        in_call=(pl.col("kind") == "kernel")
        & (pl.col("start_ns") <= pl.col("call_end_ns") + pl.col("latency_ns")),
        # A call that had returned did not wait for what it launched: all of it came before.
        called_ns=pl.when(pl.col("start_ns") >= pl.col("call_end_ns")).then(
            pl.col("call_end_ns") - pl.col("call_ns")
        ),
        meeting="meeting",
        meeting_lag_ns="meeting_lag_ns",
        turn=pl.lit(0, pl.Int8),
    )


def _find_events(ops: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """For operations launched right behind an event wait: what they waited for."""
    waits = orders_streams(Texts(calls.get_column("name")))
    if not waits.any():
        return pl.DataFrame(schema=_WAITS)
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(1)) for c in THREAD)
    behind = waits.shift(1, fill_value=False) & calls.select(same).to_series()
    launched = calls.filter(behind).select(call_id="host_op_id")
    told = ops.join(launched, on="call_id", how="semi")
    return _find_last_elsewhere(told, ops).with_columns(wait_by=pl.lit("event", _WAIT_BY))


def _infer_waits(late: pl.DataFrame, ops: pl.DataFrame, gap_ns: int) -> pl.DataFrame:
    """For operations that start late, while another stream works: which one they waited for."""
    # Without a launch and one before it, it could have started at any time.
    ready = pl.max_horizontal(
        pl.col("prev_end_ns") + gap_ns, pl.col("call_ns") + pl.col("latency_ns")
    ).fill_null(pl.lit(ops.get_column("start_ns").min()))
    late = late.filter(pl.col("start_ns") - ready > LATE_NS)
    if late.is_empty():
        return pl.DataFrame(schema=_WAITS)
    found = _list_last_elsewhere(late, ops).join(
        late.select("device_op_id", "start_ns", ready=ready), on="device_op_id"
    )
    allowed = ((pl.col("start_ns") - pl.col("ready")) // 10).clip(RIGHT_BEFORE_NS, NO_LONGER_NS)
    near = pl.col("start_ns") - pl.col("event_end") <= allowed
    found = found.filter(pl.col("event_end") > pl.col("ready"))
    found = found.with_columns(
        wait_by=pl.when(near).then(pl.lit("timing", _WAIT_BY)).otherwise(pl.lit("guess", _WAIT_BY))
    )
    # Of several that ended right before, the one that took longest is what others wait for; else
    # the last.
    first = pl.when(pl.col("wait_by") == "timing").then("took").otherwise("event_end")
    return (
        found.sort(pl.col("wait_by") == "timing", first, descending=True, maintain_order=True)
        .unique("device_op_id", keep="first", maintain_order=True)
        .select("device_op_id", "event_id", "event_end", "wait_by")
    )


def _find_last_elsewhere(told: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """For each operation the one of another stream or device that had ended last at its start.

    Of those launched before it: an event that is recorded later is none to wait for. Where the
    stream was late for another reason, others have ended since.
    """
    before, at, earlier = _order_by_end(told, ops)
    found = [pl.DataFrame(schema={c: _WAITS[c] for c in ("device_op_id", "event_id", "event_end")})]
    for _ in range(FAR_BACK):
        if told.is_empty():
            break
        here = told.hstack(take_rows(before, at))
        launched = (pl.col("event_call_ns") <= pl.col("call_ns")).fill_null(value=True)
        fits = here.select((_IS_ELSEWHERE & launched).fill_null(value=False)).to_series()
        found.append(here.filter(fits).select("device_op_id", "event_id", "event_end"))
        more = ~fits & at.is_not_null()
        told, at = told.filter(more), earlier.gather(at.filter(more))
    return pl.concat(found)


def _list_last_elsewhere(late: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Of the last operations to end those, the last first, and how long they `took`, ns."""
    before, at, earlier = _order_by_end(late, ops)
    # The one that ended last is mostly of the own stream: look a few places further back.
    found = []
    for _ in range(NEAR_BACK):
        here = late.hstack(take_rows(before, at)).filter(_IS_ELSEWHERE)
        found.append(here.select("device_op_id", "event_id", "event_end", "took"))
        at = earlier.gather(at)
    return pl.concat(found)


def _order_by_end(
    asked: pl.DataFrame, ops: pl.DataFrame
) -> tuple[pl.DataFrame, pl.Series, pl.Series]:
    """Operations by their ends, the one that ended last before each asked one, and the one before.

    Only of the process that launched it: an event is not known to another one.
    """
    before = ops.select(
        *PROCESS,
        t="end_ns",
        other="stream_id",
        other_device="device_id",
        event_id="device_op_id",
        event_end="end_ns",
        event_call_ns="call_ns",
        took=pl.col("end_ns") - pl.col("start_ns"),
    ).sort("t")
    at = find_latest(asked, "start_ns", before, "t", PROCESS)
    process, _ = number_groups(before, PROCESS)
    return before.drop(*PROCESS, "t"), at, _find_row_before(process)


def _order_nodes(nodes: pl.DataFrame) -> pl.DataFrame:
    """Nodes numbered in order, edges as such numbers, and the residual that each one needs."""
    edges = _find_edges(nodes)
    nodes = keep_single_values(nodes.drop("turn", *(f"{e}_uid" for e in EDGES)))
    nodes = nodes[edges.get_column("row")].hstack(edges.drop("row")).with_row_index("node")
    nodes = _explain_slow_launches(_number_guesses(nodes))
    ordered = nodes.select(
        "node",
        "kind",
        "rank",
        "device_id",
        "stream_id",
        "pid",
        "tid",
        "name",
        "ref_id",
        "start_ns",
        "end_ns",
        *(c for e in EDGES for c in (e, f"{e}_lag_ns")),
        "wait_by",
        "guess",
        "residual_ns",
        "meeting",
        "meeting_lag_ns",
    )
    return keep_single_values(ordered)


def _find_edges(nodes: pl.DataFrame) -> pl.DataFrame:
    """The order of the nodes (`row`), and what each of them waits for as a place in that order."""
    moment = pl.when(pl.col("kind") == "finish").then("end_ns").otherwise("start_ns")
    given = nodes.select(
        moment.alias("moment"),
        "turn",
        "uid",
        *(c for e in EDGES for c in (f"{e}_uid", f"{e}_lag_ns")),
        "start_ns",
        "end_ns",
    )
    return unpack_columns(native_edges(pack_columns(given), _RECORDING))


def _number_guesses(nodes: pl.DataFrame) -> pl.DataFrame:
    """The nodes with `guess` as a number of a node, as the edges are."""
    asked = nodes.select("node", uid="guess_uid").drop_nulls()
    found = asked.join(nodes.select("uid", guess="node"), on="uid")
    nothing = pl.repeat(None, nodes.height, dtype=pl.UInt32, eager=True)
    guess = nothing.scatter(found.get_column("node"), found.get_column("guess")).alias("guess")
    return nodes.drop("uid", "guess_uid").with_columns(guess)


def _explain_slow_launches(nodes: pl.DataFrame) -> pl.DataFrame:
    """The nodes where what nothing else explains of a start lies inside its launch call.

    Of what started later still, the time behind the call stays unexplained.
    """
    began = nodes.get_column("start_ns").gather(nodes.get_column("launch"))
    whole = pl.col("start_ns") - pl.lit(began)
    within = pl.when(pl.col("in_call").fill_null(value=False)).then(whole).otherwise("called_ns")
    behind = whole - within
    slow = ((pl.col("residual_ns") > 0) & (behind < pl.col("residual_ns"))).fill_null(value=False)
    return nodes.with_columns(
        launch_lag_ns=pl.when(slow).then(within).otherwise("launch_lag_ns"),
        residual_ns=pl.when(slow).then(behind).otherwise("residual_ns"),
    )
