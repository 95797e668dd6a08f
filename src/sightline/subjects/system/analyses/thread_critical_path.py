"""What a CPU thread's time was made of: its own work, and that of what it waited for.

Where the thread sleeps, the path goes on in the thread that woke it, never further back than the
sleep began; where an interrupt woke it, the sleep is the timer's, the disk's or the network's. A
packet leads on to the thread that sent it, on another host, too, if its kernel was recorded. It
is the critical path of Trace Compass (Giraldeau and Dagenais, IEEE TPDS 27 (8), 2016).
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from sightline.core.model.columns import RANK, duration, number, text, time
from sightline.core.model.declare import Analysis, Param
from sightline.core.model.run import Run
from sightline.subjects.system.analyses._shared import name_threads
from sightline.subjects.system.thread_path import Lane, Link, trace_thread_path
from sightline.timeline.packets import find_senders
from sightline.timeline.sleeps import list_sleeps, list_states
from sightline.timeline.system_calls import name_calls
from sightline.timeline.thread_states import THREAD

ANALYSIS = Analysis(
    "thread_critical_path",
    "What was a CPU thread's time made of, with what it waited for?",
    (
        RANK,
        time("start_ns", "start of the piece"),
        time("end_ns", "end of the piece, which is the start of the next one"),
        duration("duration_ns", "length of the piece"),
        number("tid", "thread that the path is on"),
        text("thread_name", "its name"),
        text(
            "state",
            "running, preempted, woken (it waits for a CPU), timer, disk, network, interrupt, "
            "blocked or uninterruptible (nothing recorded woke it), off_cpu (nothing says why), "
            "unknown (not recorded)",
            required=True,
        ),
        text("source", "name of the interrupt that ended a wait"),
        text("call", "system call that the thread was in"),
        number("cpu", "CPU core that it ran on"),
        number("depth", "waits that lead from the asked thread to this one"),
    ),
    needs=("sched_events",),
    params=(
        Param("tid", 0, "the thread; 0: the one that launches most, else the one that ran longest"),
        Param("rank", -1, "rank of its host, where several have such a thread; -1: the first one"),
    ),
    notes=(
        "The pieces sum to the time from the thread's first switch to its end, or the recording's.",
        "Who woke whom is known only from wake-ups (sched_waking or sched_wakeup); interrupts are "
        "known as such only where they were recorded, else the interrupted thread counts.",
        "A packet's way is `network`, from its sender's thread on, where both ends were recorded "
        "with TCP headers (net_dev_queue, net_if_receive_skb); else the whole wait is.",
    ),
)


def run(run: Run, *, tid: int, rank: int) -> pl.DataFrame:
    """One row per piece, in order of time."""
    states = list_states(run)
    asked = states if rank < 0 else states.filter(pl.col("rank") == rank)
    chosen = _choose_thread(run, asked, tid)
    columns = [column.name for column in ANALYSIS.columns]
    if chosen is None:
        return pl.DataFrame(schema={c.name: c.dtype for c in ANALYSIS.columns})
    sleeps = list_sleeps(run)
    woken = run.table("wakeups")
    states = _add_sources(run, states, sleeps)
    threads = _number_threads(states, woken)
    states = states.join(threads, on=THREAD, maintain_order="left")
    here = pl.struct(THREAD) == dict(zip(THREAD, chosen, strict=True))
    thread = int(threads.filter(here).item(0, "thread"))
    mine = states.filter(pl.col("thread") == thread)
    find_lane = _index_lanes(_link_wakers(states, threads), _list_origins(woken, threads))
    begin, end = mine.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    pieces = pl.DataFrame(
        [vars(piece) for piece in trace_thread_path(find_lane, thread, begin, end)],
        schema={
            **dict.fromkeys(("start_ns", "end_ns", "tid"), pl.Int64),
            "state": pl.String,
            "row": pl.Int64,
            "depth": pl.Int64,
        },
    ).rename({"tid": "thread"})
    # A piece's row counts within its thread.
    details = states.select(
        "thread", "source", "source_name", "cpu", row=pl.int_range(pl.len()).over("thread")
    )
    pieces = pieces.join(details, on=["thread", "row"], how="left", maintain_order="left")
    pieces = pieces.join(threads, on="thread", maintain_order="left")
    is_waiting = pl.col("state").is_in(["blocked", "uninterruptible", "off_cpu"])
    by_interrupt = is_waiting & pl.col("source_name").is_not_null()
    pieces = pieces.with_columns(
        duration_ns=pl.col("end_ns") - pl.col("start_ns"),
        state=pl.when(
            is_waiting & ~pl.col("source").fill_null("unknown").is_in(["thread", "unknown"])
        )
        .then("source")
        .otherwise("state"),
        source=pl.when(by_interrupt).then("source_name"),
        cpu=pl.when(pl.col("state") == "running").then("cpu"),
    )
    named = name_threads(name_calls(run, pieces), run, "tid", "thread_name")
    return named.select(columns)


def _add_sources(run: Run, states: pl.DataFrame, sleeps: pl.DataFrame) -> pl.DataFrame:
    """The states, of sleeps with what ended them: a thread by a wake-up, or one by a packet."""
    columns = ("start_ns", "state", "source", "source_name", "waker_tid")
    known = sleeps.select(*THREAD, *columns).hstack(find_senders(run, sleeps))
    return states.join(known, on=[*THREAD, "start_ns", "state"], how="left", maintain_order="left")


def _number_threads(states: pl.DataFrame, wakeups: pl.DataFrame) -> pl.DataFrame:
    """All threads that a path may come to, with a number of their own: `thread`."""
    place = ["rank", "recording_id"]
    sender = {name: f"sender_{name}" for name in THREAD}
    every = [
        states.select(THREAD),
        states.select(*place, tid="waker_tid"),
        states.select(**sender),
        wakeups.select(THREAD),
    ]
    threads = pl.concat(every).drop_nulls("tid").unique(maintain_order=True)
    return threads.with_columns(thread=pl.int_range(pl.len(), dtype=pl.Int64))


def _link_wakers(states: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    """The states with the numbers of the threads that ended them, `waker` and `sender`."""
    wakers = threads.rename({"tid": "waker_tid", "thread": "waker"})
    senders = threads.rename({name: f"sender_{name}" for name in THREAD} | {"thread": "sender"})
    keys = ["rank", "recording_id", "waker_tid"]
    found = states.join(wakers, on=keys, how="left", maintain_order="left")
    keys = [f"sender_{name}" for name in THREAD]
    return found.join(senders, on=keys, how="left", maintain_order="left")


def _list_origins(wakeups: pl.DataFrame, threads: pl.DataFrame) -> dict[int, Link]:
    """Which thread made a thread, and when."""
    made = wakeups.filter(pl.col("kind") == "sched_wakeup_new", pl.col("tid") > 0)
    woken = threads.rename({"tid": "woken_tid", "thread": "woken"})
    made = made.join(threads, on=THREAD, maintain_order="left")
    made = made.join(woken, on=["rank", "recording_id", "woken_tid"], maintain_order="left")
    made = made.unique("woken", keep="first", maintain_order=True)
    rows = made.select("woken", "thread", "time_ns").rows()
    return {woken: Link(by, at, "woken") for woken, by, at in rows}


def _choose_thread(run: Run, states: pl.DataFrame, tid: int) -> tuple[int, int, int] | None:
    """Rank, recording and number of the thread; None where it was not recorded."""
    ran = states.filter(pl.col("state") == "running")
    if tid:
        found = states.filter(pl.col("tid") == tid)
    else:
        launched = run.table("device_ops").select(host_op_id="launch_id").drop_nulls()
        launching = (
            run.table("host_ops", ["host_op_id", "rank", "tid"])
            .join(launched, on="host_op_id")
            .group_by("rank", "tid")
            .len()
            .sort("len", "tid", descending=[True, False])
        )
        found = launching.join(ran.select(THREAD).unique(), on="tid", maintain_order="left")
    if found.is_empty() and not tid:
        length = pl.col("end_ns") - pl.col("start_ns")
        ran_ns = ran.group_by(THREAD).agg(ns=length.sum())
        found = ran_ns.sort("ns", "tid", descending=[True, False])
    if found.is_empty():
        return None
    rank, recording, chosen = found.select(THREAD).row(0)
    return int(rank), int(recording), int(chosen)


def _index_lanes(states: pl.DataFrame, origins: dict[int, Link]) -> Callable[[int], Lane | None]:
    """Lanes by thread, made when the path first comes to a thread."""
    places = states.with_row_index("place").group_by("thread").agg(pl.col("place").min(), pl.len())
    known = {thread: (place, n) for thread, place, n in places.rows()}
    lanes: dict[int, Lane | None] = {}

    def find_lane(thread: int) -> Lane | None:
        if thread not in lanes:
            place = known.get(thread)
            lanes[thread] = (
                None if place is None else _make_lane(states.slice(*place), origins.get(thread))
            )
        return lanes[thread]

    return find_lane


def _make_lane(states: pl.DataFrame, origin: Link | None) -> Lane:
    columns = ("start_ns", "end_ns", "state", "waker", "sender", "sender_time_ns")
    starts, ends, names, wakers, senders, sent = (states.get_column(c).to_list() for c in columns)
    links = [
        Link(sender, sent_at, "network")
        if sender is not None
        else None
        if waker is None
        else Link(waker, at)
        for waker, at, sender, sent_at in zip(wakers, ends, senders, sent, strict=True)
    ]
    return Lane(starts, ends, names, links, origin)
