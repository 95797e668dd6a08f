"""Waits for the device that no call of the recording shows: the host polls until something ended.

A program may ask again and again whether an event has passed (cudaEventQuery), or look at memory
that a kernel writes, as DeepEP's dispatch does (csrc/deep_ep.cpp: it spins until the counters of
received tokens are there). To the recording both are the host's own time between calls.

Queries are a wait where a thread asks three times or more in a row, for long, and what it had
launched last on a stream ends between the last two. Time between two calls is one where it ends
with the operation that the thread had launched last, every time that one of that name is followed
by a long one, and follows it as that takes now more, now less time: `_SPREAD` says how closely.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import Texts, take_rows
from sightline.timeline.api_calls import polls

# Ours: ten times what a launch on an idle device takes (graph.py: LAUNCH_NS). A host that launches
# late is seldom silent for so long, and an allocator's queries after one another seldom take it.
LONG_NS = 100_000
# Ours: fewer tell no wait from chance.
LEAST_TIMES = 3
# How far the operation's end may be from the next call, as a part of the wait (ours). A kernel may
# write what the host looks for before it ends (DeepEP's 20 to 60 µs), and the thread may work on
# before it calls again.
_NEAR = 0.1
# The times from the operation's end to the next call vary by no more than this part of what the
# waits' lengths vary by (ours). Three independent times are as near and vary as little by chance in
# one of some thousand cases.
_SPREAD = 0.1

_THREAD = ["rank", "pid", "tid"]
_DEVICE = ["rank", "device_id"]
POLLED = {"host_op_id": pl.Int64, "target_id": pl.Int64, "target_end": pl.Int64}


def find_polled(calls: pl.DataFrame, ops: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The calls without queries within a wait, and the calls that such a wait came before.

    Those have `target_id` and `target_end`, the operation that was waited for; the wait began with
    the end of the call before them, or with its first query. `calls` are in order of thread and
    time; `ops` have `call_id` and `call_ns`, when each was asked for.
    """
    calls, queried = _find_queried(calls, ops)
    return calls, pl.concat([queried, _find_silent(calls, ops)]).unique("host_op_id", keep="first")


def _find_queried(calls: pl.DataFrame, ops: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The calls with one query where a wait began, and the last query of each such wait."""
    is_poll = polls(Texts(calls.get_column("name")))
    if is_poll.sum() < LEAST_TIMES:
        return calls, pl.DataFrame(schema=POLLED)
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(1)) for c in [*_THREAD, "name"])
    marked = calls.with_columns(poll=is_poll).with_columns(
        turn=(~(pl.col("poll") & pl.col("poll").shift(1, fill_value=False) & same)).cum_sum()
    )
    turns = (
        marked.filter("poll")
        .group_by("turn", *_DEVICE, maintain_order=True)
        .agg(
            times=pl.len(),
            host_op_id=pl.col("host_op_id").last(),
            began=pl.col("start_ns").first(),
            before=pl.col("start_ns").get(-2, null_on_oob=True),
            until=pl.col("end_ns").last(),
        )
        .filter(pl.col("times") >= LEAST_TIMES, pl.col("until") - pl.col("began") > LONG_NS)
    )
    ended = _list_last_of_streams(turns, ops)
    waits = ended.filter(pl.col("target_end") > pl.col("before"))
    kept = marked.join(waits.select("turn", last="host_op_id"), on="turn", how="left")
    ends = (pl.col("host_op_id") == pl.col("last")).fill_null(value=True)
    first = pl.col("turn").is_first_distinct()
    return kept.filter(ends | first).select(calls.columns), waits.select(list(POLLED))


def _list_last_of_streams(turns: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """The turns with what ended last during them, of what their streams had been given last."""
    lanes = ops.select(*_DEVICE, "stream_id").unique()
    asked = turns.join(lanes, on=_DEVICE)
    by = [*_DEVICE, "stream_id"]
    launched = ops.drop_nulls("call_ns").sort("call_ns", "end_ns")
    rows = find_latest(asked, "began", launched, "call_ns", by)
    last = take_rows(launched.select(target_id="device_op_id", target_end="end_ns"), rows)
    found = asked.hstack(last).filter(pl.col("target_end") <= pl.col("until"))
    return found.sort("target_end").unique("turn", keep="last")


def _find_silent(calls: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Calls that come so long after the one before them as the operation before them took."""
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(1)) for c in _THREAD)
    silent = calls.with_columns(since=pl.when(same).then(pl.col("end_ns").shift(1))).filter(
        pl.col("start_ns") - pl.col("since") > LONG_NS
    )
    if silent.height < LEAST_TIMES:
        return pl.DataFrame(schema=POLLED)
    launched = (
        ops.drop_nulls("call_id")
        .join(calls.select("rank", *_THREAD[1:], call_id="host_op_id"), on=["rank", "call_id"])
        .select(
            *_THREAD,
            "call_ns",
            target="name",
            target_id="device_op_id",
            begins="start_ns",
            target_end="end_ns",
        )
        .sort("call_ns", "target_end")
    )
    rows = find_latest(silent, "since", launched, "call_ns", _THREAD)
    told = ("target", "target_id", "begins", "target_end")
    found = silent.hstack(take_rows(launched.select(told), rows)).drop_nulls("target_id")
    length = pl.col("start_ns") - pl.col("since")
    apart = pl.col("start_ns") - pl.col("target_end")
    by = [*_THREAD, "target"]
    runs = pl.col("begins") < pl.col("start_ns")
    near = (runs & (apart.abs() <= _NEAR * length)).all().over(by)
    varies, apart_varies = ((t.max() - t.min()).over(by) for t in (length, apart))
    follows = apart_varies < _SPREAD * varies
    enough = pl.len().over(by) >= LEAST_TIMES
    return found.filter(enough, near, follows).select(list(POLLED))
