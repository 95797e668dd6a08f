"""What each event of a run waited for: the graph that a replay goes through.

Nodes are host calls, ends of host calls that wait ("finish"), and device operations. Each starts
at the latest of up to three moments, plus what the recording leaves unexplained (`residual_ns`):

prev    host: the call of this device's threads that ended last; device: the operation before it
        on its stream; finish: the begin of its own call
launch  device: the begin of its launch call; finish: the start of the operation that made room
        in a full queue
wait    finish: the operation that the call waits for; device: the operation of another stream
        that it was told to wait for

A lag is what usually lies between the two (launch latency, gap on a stream, return of a wait), but
never more than was recorded, so that a replay without a change gives the recording to the ns.

What is assumed, since recordings do not say it: threads of one process that launch on one device
hand over to each other (as PyTorch's autograd does); an operation that is launched right behind a
cudaStreamWaitEvent waits for what ended last on other streams before it started.
"""

from __future__ import annotations

import polars as pl

# Where a recording's own events do not tell. Launch: see idle_gaps. Stream gap and wait: NVIDIA,
# "Getting Started with CUDA Graphs" (2019): 1 to 4 µs between kernels of one stream.
LAUNCH_NS, GAP_NS, WAIT_NS, RETURN_NS = 10_000, 1_000, 2_000, 3_000
# HolisticTraceAnalysis: a stream takes 1022 to 1024 operations before launches block.
QUEUE = 1_000

WAITING = (
    r"Synchronize|^(?:cuda|hip)Memcpy(?:[A-Z0-9]|$)|^cuMemcpy|StreamWaitValue|MemcpyWithStream"
)
ALLOCATING = r"^(?:cuda|hip)(?:Malloc|Free|HostAlloc|HostRegister)|^cu(?:MemAlloc|MemFree)"
_STREAM_ORDERED = r"(?:Malloc|Free|MemAlloc|MemFree)(?:FromPool)?Async"
_EVENT_WAIT = r"StreamWaitEvent"

# Ids of one recording are consecutive: then a table of all of them is smaller than a join.
_DENSE = 16
EDGES = ("prev", "launch", "wait")
_LANE = ["rank", "device_id", "context_id", "stream_id"]
_THREAD = ["rank", "pid", "tid"]
# A node's own number before sorting: its row's id and which of the row's nodes it is.
BEGIN, FINISH, OP = 0, 1, 2


def build(
    device_ops: pl.DataFrame, host_ops: pl.DataFrame, collectives: pl.DataFrame
) -> pl.DataFrame:
    """The nodes in an order in which everything comes after what it waits for."""
    ops = device_ops.select(
        "device_op_id", *_LANE, "kind", "name", "start_ns", "end_ns", "launch_id"
    )
    calls = _calls(host_ops, ops)
    ops = _with_launch(ops, calls, host_ops)
    finishes = _finishes(calls, ops)
    nodes = pl.concat(
        [_host_nodes(calls, finishes), _finish_nodes(finishes), _op_nodes(ops, calls, collectives)],
        how="diagonal",
    )
    return _ordered(nodes)


def _calls(host_ops: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """The outermost API calls of the threads that launch, each with its thread's device."""
    api = host_ops.filter(pl.col("layer").is_in(["runtime", "driver"])).select(
        "host_op_id", *_THREAD, "name", "start_ns", "end_ns"
    )
    home = (
        ops.select("device_id", host_op_id="launch_id")
        .join(api.select("host_op_id", *_THREAD), on="host_op_id")
        .group_by(*_THREAD, "device_id")
        .agg(n=pl.len())
        .sort("n", "device_id", descending=[True, False])
        .unique(_THREAD, keep="first", maintain_order=True)
        .drop("n")
    )
    reach = pl.col("end_ns").cum_max().shift(1).over(_THREAD)
    return (
        api.join(home, on=_THREAD, nulls_equal=True)
        .sort(*_THREAD, "start_ns", "host_op_id")
        .filter((pl.col("start_ns") >= reach).fill_null(value=True))
    )


def _with_launch(ops: pl.DataFrame, calls: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """Operations with their outermost call's begin and end, previous operation and gap."""
    inner = host.join(
        ops.select(host_op_id="launch_id").unique(), on="host_op_id", how="semi"
    ).select(*_THREAD, launch_id="host_op_id", t="start_ns")
    outer = (
        inner.sort("t")
        .join_asof(
            calls.select(*_THREAD, "host_op_id", "end_ns", call_ns="start_ns").sort("call_ns"),
            left_on="t", right_on="call_ns", by=_THREAD, check_sortedness=False,
        )
        .select("launch_id", "call_ns", call_id="host_op_id", call_end_ns="end_ns")
    )  # fmt: skip
    return (
        ops.join(outer, on="launch_id", how="left")
        .sort("start_ns", "end_ns", "device_op_id")
        .with_columns(
            pl.col("end_ns").shift(1).over(_LANE).alias("prev_end_ns"),
            pl.col("device_op_id").shift(1).over(_LANE).alias("prev_id"),
            pl.col("call_id").shift(1).over(_LANE).alias("prev_call"),
        )
        .with_columns(first=pl.col("call_id").is_first_distinct())
    )


def _finishes(calls: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Calls that wait: for which operation's end or start, with which lag, at what own cost."""
    found = calls.filter(
        (pl.col("name").str.contains(WAITING) | pl.col("name").str.contains(ALLOCATING))
        & ~pl.col("name").str.contains(_STREAM_ORDERED)
    )
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
    others = _awaited(blocking, ops)
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
    allocates = pl.col("name").str.contains(ALLOCATING)
    return pl.concat(
        [
            every.select(
                "host_op_id", *_THREAD, "device_id", "name", "start_ns", "end_ns",
                own_ns=pl.when(waited).then(pl.min_horizontal(cost, length)).otherwise(length),
                target_uid=pl.col("target") * 4 + OP,
                lag_ns=pl.when(waited).then(lag).otherwise(pl.min_horizontal(lag, usual_ns)),
                tail_ns=pl.when(allocates).then(tail).otherwise(0),
                by_start=pl.lit(value=False),
            ),
            _full_queue(calls, ops),
        ],
        how="diagonal",
    )  # fmt: skip


def _awaited(blocking: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """What a synchronising call waits for: the last to end of what was launched before it.

    A stream or event is not always named in a recording: where that operation ended after the
    call, the call was about another stream, and what ended last before its return is taken.
    """
    by = ["rank", "device_id"]
    launched = (
        ops.drop_nulls("call_ns")
        .sort("call_ns", "end_ns")
        .with_columns(latest=pl.col("end_ns").cum_max().over(by))
        .with_columns(
            latest_id=pl.when(pl.col("end_ns") == pl.col("latest"))
            .then("device_op_id")
            .forward_fill()
            .over(by)
        )
        .select(*by, "call_ns", "latest", "latest_id")
    )
    ended = ops.drop_nulls("call_ns").select(
        *by, t="end_ns", ended="end_ns", ended_id="device_op_id", ended_call="call_ns"
    )
    return (
        blocking.sort("start_ns")
        .join_asof(
            launched.sort("call_ns"), left_on="start_ns", right_on="call_ns", by=by,
            check_sortedness=False,
        )
        .sort("end_ns")
        .join_asof(
            ended.sort("t"), left_on="end_ns", right_on="t", by=by, check_sortedness=False
        )
        .with_columns(known=pl.col("latest") <= pl.col("end_ns"))
        .with_columns(
            target=pl.when("known").then("latest_id")
            .when(pl.col("ended_call") < pl.col("start_ns")).then("ended_id"),
            target_end=pl.when("known").then("latest").otherwise("ended"),
        )
    )  # fmt: skip


def _full_queue(calls: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Launch calls that waited for room in the queue: until an operation of the stream started."""
    launched = ops.drop_nulls("call_ns").sort("call_ns", "device_op_id")
    length = pl.col("call_end_ns") - pl.col("call_ns")
    # What a launch takes where there is room: the shortest tenth of the calls.
    usual = int(launched.unique("call_id").select(length.quantile(0.1, "lower")).item() or 0)
    # So many are queued if the one that many places ahead had not started at the call.
    ahead = pl.col("start_ns").shift(QUEUE).over(_LANE)
    full = launched.filter(length > 2 * usual, ahead > pl.col("call_ns"))
    starts = ops.select(*_LANE, t="start_ns", freed="start_ns", freed_id="device_op_id").sort("t")
    found = (
        full.drop("prev_id").sort("call_end_ns")
        .join_asof(starts, left_on="call_end_ns", right_on="t", by=_LANE, check_sortedness=False)
        .filter(pl.col("freed") > pl.col("call_ns"))
        .unique("call_id", keep="first")
    )  # fmt: skip
    return found.join(
        calls.select("host_op_id", *_THREAD, "name"), left_on=["call_id", "rank"],
        right_on=["host_op_id", "rank"],
    ).select(
        *_THREAD, "device_id", "name",
        host_op_id="call_id", start_ns="call_ns", end_ns="call_end_ns",
        own_ns=pl.lit(usual, pl.Int64), target_uid=pl.col("freed_id") * 4 + OP,
        lag_ns=pl.col("call_end_ns") - pl.col("freed"), tail_ns=pl.lit(0, pl.Int64),
        by_start=pl.lit(value=True),
    )  # fmt: skip


def _host_nodes(calls: pl.DataFrame, finishes: pl.DataFrame) -> pl.DataFrame:
    """The begin of every call, behind the call that ended last on its device's threads."""
    waits = finishes.select("host_op_id").unique().with_columns(split=pl.lit(value=True))
    calls = calls.join(waits, on="host_op_id", how="left").with_columns(
        pl.col("split").fill_null(value=False)
    )
    chain = ["rank", "pid", "device_id"]
    ended = calls.select(
        *chain,
        # A call of no length must not come before itself.
        t=pl.max_horizontal("end_ns", pl.col("start_ns") + 1),
        prev_end="end_ns",
        prev_uid=pl.col("host_op_id") * 4 + pl.when("split").then(FINISH).otherwise(BEGIN),
    ).sort("t", "prev_uid")
    return (
        calls.sort("start_ns")
        .join_asof(
            ended, left_on="start_ns", right_on="t", by=chain, check_sortedness=False
        )
        .select(
            *_THREAD, "device_id", "name", "start_ns",
            kind=pl.lit("call"),
            ref_id="host_op_id",
            uid=pl.col("host_op_id") * 4 + BEGIN,
            end_ns=pl.when("split").then("start_ns").otherwise("end_ns"),
            prev_uid="prev_uid",
            prev_lag_ns=pl.col("start_ns") - pl.col("prev_end"),
            turn=pl.lit(2, pl.Int8),
        )
    )  # fmt: skip


def _finish_nodes(finishes: pl.DataFrame) -> pl.DataFrame:
    """The return of a call that waits."""
    return finishes.unique("host_op_id", keep="last").select(
        *_THREAD, "device_id", "name",
        kind=pl.lit("finish"),
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
    )  # fmt: skip


def _op_nodes(ops: pl.DataFrame, calls: pl.DataFrame, collectives: pl.DataFrame) -> pl.DataFrame:
    """Device operations, behind their stream, their launch and their event."""
    gap, delay = pl.col("start_ns") - pl.col("prev_end_ns"), pl.col("start_ns") - pl.col("call_ns")
    queued = ops.filter((pl.col("call_end_ns") < pl.col("prev_end_ns")) & (gap >= 0))
    gap_ns = int(queued.select(gap.quantile(0.1, "lower")).item() or GAP_NS)
    idle = ops.filter("first", (pl.col("call_ns") >= pl.col("prev_end_ns")) & (delay > 0))
    latency = idle.group_by("kind").agg(latency_ns=delay.quantile(0.1, "lower").cast(pl.Int64))
    ops = ops.join(latency, on="kind", how="left").with_columns(
        pl.min_horizontal(pl.col("latency_ns").fill_null(LAUNCH_NS), LAUNCH_NS)
    )
    ops = ops.join(_events(ops, calls), on="device_op_id", how="left")
    ops = ops.join(meetings(ops, collectives), on="device_op_id", how="left")
    same_graph = (pl.col("call_id") == pl.col("prev_call")).fill_null(value=False)
    return ops.select(
        "rank", "device_id", "stream_id", "name", "start_ns", "end_ns",
        kind="kind", ref_id="device_op_id", uid=pl.col("device_op_id") * 4 + OP,
        prev_uid=pl.col("prev_id") * 4 + OP,
        prev_lag_ns=pl.when(same_graph).then(gap).otherwise(pl.min_horizontal(gap, gap_ns)),
        launch_uid=pl.col("call_id") * 4 + BEGIN,
        launch_lag_ns=pl.min_horizontal(delay, "latency_ns"),
        wait_uid=pl.col("event_id") * 4 + OP,
        wait_lag_ns=pl.min_horizontal(pl.col("start_ns") - pl.col("event_end"), WAIT_NS),
        meeting="meeting", meeting_lag_ns="meeting_lag_ns",
        turn=pl.lit(0, pl.Int8),
    )  # fmt: skip


def _events(ops: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """For operations launched right behind an event wait: what they waited for."""
    marks = calls.sort(*_THREAD, "start_ns").select(
        call_id="host_op_id",
        told=pl.col("name").str.contains(_EVENT_WAIT).shift(1).over(_THREAD),
    )
    told = ops.join(marks.filter("told"), on="call_id", how="semi")
    before = ops.select("rank", t="end_ns", other="stream_id", other_device="device_id",
                        event_id="device_op_id", event_end="end_ns").sort("t")  # fmt: skip
    # The one that ended last is mostly of the own stream: look a few places further back.
    found = []
    for back in range(4):
        shifted = before.with_columns(
            pl.col("other", "other_device", "event_id", "event_end").shift(back).over("rank")
        )
        found.append(
            told.sort("start_ns")
            .join_asof(shifted, left_on="start_ns", right_on="t", by="rank", check_sortedness=False)
            .filter(
                (pl.col("other") != pl.col("stream_id"))
                | (pl.col("other_device") != pl.col("device_id"))
            )
            .select("device_op_id", "event_id", "event_end")
        )
    return pl.concat(found).unique("device_op_id", keep="first", maintain_order=True)


def meetings(ops: pl.DataFrame, collectives: pl.DataFrame) -> pl.DataFrame:
    """Which operations of different ranks are one collective, where clocks allow to say so.

    Matched by process group and order in it. A collective ends at `meeting_lag_ns` after the last
    of its members has started; where one ended before another started, the clocks disagree or the
    match is wrong, and nothing is concluded.
    """
    schema = {"device_op_id": pl.Int64, "meeting": pl.Int64, "meeting_lag_ns": pl.Int64}
    if collectives.is_empty() or collectives.get_column("rank").n_unique() < 2:
        return pl.DataFrame(schema=schema)
    members = (
        ops.select("device_op_id", "start_ns", "end_ns")
        .join(
            collectives.unique("device_op_id").select("device_op_id", "rank", "group", "op",
                                                      "group_size"),
            on="device_op_id",
        )
        .sort("start_ns", "device_op_id")
        .with_columns(nth=pl.int_range(pl.len()).over("rank", "group", "op"))
    )  # fmt: skip
    key = ["group", "op", "nth"]
    last, first_end = pl.col("start_ns").max(), pl.col("end_ns").min()
    whole = members.group_by(key).agg(
        pl.col("device_op_id", "end_ns"),
        n=pl.len(), ranks=pl.col("rank").n_unique(), size=pl.col("group_size").max(),
        last=last, fits=last < first_end,
    )  # fmt: skip
    whole = whole.filter(
        "fits", (pl.col("n") == pl.col("ranks")) & (pl.col("n") > 1),
        (pl.col("n") == pl.col("size")).fill_null(value=True),
    ).sort("last", *key)  # fmt: skip
    return (
        whole.with_row_index("meeting")
        .explode("device_op_id", "end_ns", empty_as_null=True, keep_nulls=True)
        .select(
            "device_op_id",
            pl.col("meeting").cast(pl.Int64),
            meeting_lag_ns=pl.col("end_ns") - pl.col("last"),
        )
    )


def _ordered(nodes: pl.DataFrame) -> pl.DataFrame:
    """Nodes numbered in order, edges as such numbers, and the residual that each one needs."""
    moment = pl.when(pl.col("kind") == "finish").then("end_ns").otherwise("start_ns")
    rows = nodes.select(moment.alias("t"), "turn", "uid", row=pl.int_range(pl.len())).sort(
        "t", "turn", "uid"
    )
    nodes = nodes[rows.get_column("row")].with_columns(node=pl.int_range(pl.len(), dtype=pl.Int64))
    places = _places(nodes.get_column("uid"), nodes.select(f"{e}_uid" for e in EDGES))
    for edge in EDGES:
        nodes = nodes.hstack(_edge(nodes, places.get_column(f"{edge}_uid"), edge))
    earliest = pl.max_horizontal(pl.col(f"{e}_t") + pl.col(f"{e}_least") for e in EDGES)
    nodes = nodes.with_columns(residual_ns=pl.col("start_ns") - earliest.fill_null(0))
    return nodes.select(
        "node", "kind", "rank", "device_id", "stream_id", "pid", "tid", "name", "ref_id",
        "start_ns", "end_ns", *(c for e in EDGES for c in (e, f"{e}_lag_ns")), "residual_ns",
        "meeting", "meeting_lag_ns",
    )  # fmt: skip


def _places(uid: pl.Series, wanted: pl.DataFrame) -> pl.DataFrame:
    """The numbers of nodes that the columns name by uid; null where there is no such node."""
    highest = uid.max()
    if not isinstance(highest, int):
        return wanted
    if highest >= _DENSE * uid.len():  # several recordings: ids start far apart
        known = pl.DataFrame({"uid": uid}).with_row_index("place")
        return pl.DataFrame(
            [
                column.to_frame("uid")
                .join(known, on="uid", how="left", maintain_order="left")
                .get_column("place")
                .cast(pl.Int64)
                .alias(column.name)
                for column in wanted.get_columns()
            ]
        )
    table = pl.repeat(-1, highest + 1, dtype=pl.Int64, eager=True)
    table = table.scatter(uid, pl.int_range(uid.len(), dtype=pl.Int64, eager=True))
    found = wanted.select(
        pl.when(pl.all().is_between(0, highest)).then(pl.all()).name.keep()
    ).get_columns()
    return pl.DataFrame([table.gather(c).alias(c.name) for c in found]).select(
        pl.when(pl.all() >= 0).then(pl.all()).name.keep()
    )


def _edge(nodes: pl.DataFrame, before: pl.Series, edge: str) -> pl.DataFrame:
    """One kind of edge as node numbers, with the moment that it counts from and its lag."""
    moment = nodes.get_column("start_ns" if edge == "launch" else "end_ns").gather(before)
    # What would come before its cause (clocks apart) is no cause.
    kept = (before < nodes.get_column("node")).fill_null(value=False)
    lag = pl.min_horizontal(f"{edge}_lag_ns", pl.col("start_ns") - moment)
    return nodes.select(
        pl.when(kept).then(before).alias(edge),
        pl.when(kept).then(moment).alias(f"{edge}_t"),
        pl.when(kept).then(lag).alias(f"{edge}_least"),
    )
