"""What a CPU thread's time was made of: its own work, and that of what it waited for.

Where the thread sleeps, the path goes on in the thread that woke it, never further back than the
sleep began; where an interrupt woke it, the sleep is the timer's, the disk's or the network's. It
is the critical path of Trace Compass (Giraldeau and Dagenais, IEEE TPDS 27 (8), 2016).
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from sightline.analyses.system._shared import name_threads
from sightline.model.columns import RANK, duration, number, text, time
from sightline.model.declare import Analysis, Param
from sightline.model.run import Run
from sightline.timeline.sleeps import list_sleeps, list_states
from sightline.timeline.system_calls import name_calls
from sightline.timeline.thread_path import Lane, Link, trace_thread_path

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
    ),
    notes=(
        "The pieces sum to the time from the thread's first switch to its end, or the recording's.",
        "Who woke whom is known only from wake-ups (sched_waking or sched_wakeup); interrupts are "
        "known as such only where they were recorded, else the interrupted thread counts.",
        "Packets are not followed to their sender: such a wait is `network`.",
    ),
)
_RECORDING = ["rank", "recording_id"]


def run(run: Run, *, tid: int) -> pl.DataFrame:
    """One row per piece, in order of time."""
    states = list_states(run)
    chosen = _choose_thread(run, states, tid)
    columns = [column.name for column in ANALYSIS.columns]
    if chosen is None:
        return pl.DataFrame(schema={c.name: c.dtype for c in ANALYSIS.columns})
    rank, recording, tid = chosen
    here = (pl.col("rank") == rank) & (pl.col("recording_id") == recording)
    states = _add_sources(states.filter(here), list_sleeps(run).filter(here))
    mine = states.filter(pl.col("tid") == tid)
    find_lane = _index_lanes(states, run.table("wakeups").filter(here))
    begin, end = mine.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    pieces = pl.DataFrame(
        [vars(piece) for piece in trace_thread_path(find_lane, tid, begin, end)],
        schema={
            **dict.fromkeys(("start_ns", "end_ns", "tid"), pl.Int64),
            "state": pl.String,
            "row": pl.Int64,
            "depth": pl.Int64,
        },
    )
    # A piece's row counts within its thread.
    details = states.select(
        "tid", "source", "source_name", "cpu", row=pl.int_range(pl.len()).over("tid")
    )
    pieces = pieces.join(details, on=["tid", "row"], how="left", maintain_order="left")
    is_waiting = pl.col("state").is_in(["blocked", "uninterruptible", "off_cpu"])
    by_interrupt = is_waiting & pl.col("source_name").is_not_null()
    pieces = pieces.with_columns(
        rank=pl.lit(rank, pl.Int64),
        recording_id=pl.lit(recording, pl.Int64),
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


def _add_sources(states: pl.DataFrame, sleeps: pl.DataFrame) -> pl.DataFrame:
    known = sleeps.select("tid", "start_ns", "state", "source", "source_name", "waker_tid")
    return states.join(known, on=["tid", "start_ns", "state"], how="left", maintain_order="left")


def _choose_thread(run: Run, states: pl.DataFrame, tid: int) -> tuple[int, int, int] | None:
    """Rank, recording and number of the thread; None where it was not recorded."""
    ran = states.filter(pl.col("state") == "running")
    if tid:
        found = states.filter(pl.col("tid") == tid)
    else:
        launched = run.table("device_ops").select(host_op_id="launch_id").drop_nulls()
        launching = (
            run.table("host_ops")
            .select("host_op_id", "rank", "tid")
            .join(launched, on="host_op_id")
            .group_by("rank", "tid")
            .len()
            .sort("len", "tid", descending=[True, False])
        )
        found = launching.join(
            ran.select(*_RECORDING, "tid").unique(), on="tid", maintain_order="left"
        )
    if found.is_empty() and not tid:
        length = pl.col("end_ns") - pl.col("start_ns")
        ran_ns = ran.group_by(*_RECORDING, "tid").agg(ns=length.sum())
        found = ran_ns.sort("ns", "tid", descending=[True, False])
    if found.is_empty():
        return None
    rank, recording, chosen = found.select("rank", "recording_id", "tid").row(0)
    return int(rank), int(recording), int(chosen)


def _index_lanes(states: pl.DataFrame, wakeups: pl.DataFrame) -> Callable[[int], Lane | None]:
    """Lanes by thread, made when the path first comes to a thread."""
    places = states.with_row_index("place").group_by("tid").agg(pl.col("place").min(), pl.len())
    known = {tid: (place, n) for tid, place, n in places.rows()}
    made = wakeups.filter(pl.col("kind") == "sched_wakeup_new", pl.col("tid") > 0)
    made = made.unique("woken_tid", keep="first", maintain_order=True)
    origins = {
        woken: Link(by, at, "woken")
        for woken, by, at in made.select("woken_tid", "tid", "time_ns").rows()
    }
    lanes: dict[int, Lane | None] = {}

    def find_lane(tid: int) -> Lane | None:
        if tid not in lanes:
            place = known.get(tid)
            lanes[tid] = (
                None if place is None else _make_lane(states.slice(*place), origins.get(tid))
            )
        return lanes[tid]

    return find_lane


def _make_lane(states: pl.DataFrame, origin: Link | None) -> Lane:
    ends = states.get_column("end_ns").to_list()
    wakers = states.get_column("waker_tid").to_list()
    return Lane(
        states.get_column("start_ns").to_list(),
        ends,
        states.get_column("state").to_list(),
        [None if by is None else Link(by, at) for by, at in zip(wakers, ends, strict=True)],
        origin,
    )
