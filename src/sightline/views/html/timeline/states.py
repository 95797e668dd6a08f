"""Rows of threads' states: running, waiting for a CPU, asleep; with who woke whom.

Of a trace of the system only threads that matter are rows: those with ranges of their own, and
those that waited longest for a CPU, or were woken by them.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.core.text import make_printable
from sightline.timeline.sleeps import list_sleeps, list_states
from sightline.timeline.thread_states import THREAD

# So many rows can be looked at; a system has hundreds of threads (ours).
MOST_THREADS = 24
FIRST_CLASS = 11  # places in CLASSES, behind which those of states stand
_CLASSES = {"running": 0, "preempted": 1, "woken": 1, "blocked": 2, "uninterruptible": 2}
_NAMES = {
    "running": "running",
    "preempted": "preempted",
    "woken": "woken, waits for a CPU",
    "blocked": "asleep",
    "uninterruptible": "asleep (uninterruptible)",
}
# Ids of other events count up from 0 in each recording, 2^40 apart (docs/architecture.md, Ids).
_FIRST_ID = 1 << 60


def list_state_rows(run: Run, texts: list[str]) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """Events of the timeline and their rows; `link` is what the waker of a sleeper was in."""
    columns = ("track", "level", "start_ns", "end_ns", "name", "class", "detail", "id", "link")
    if not run.rows("sched_events"):
        types = dict.fromkeys(columns, pl.Int64) | {"name": pl.Categorical}
        return pl.DataFrame(schema=types), []
    threads = _choose_threads(run)
    states = list_states(run).join(threads, on=THREAD, how="inner", maintain_order="left")
    states = states.filter(pl.col("state").is_in(list(_NAMES))).with_columns(
        id=pl.int_range(pl.len(), dtype=pl.Int64) + _FIRST_ID
    )
    states = _link_wakers(run, states)
    at = len(texts)
    cores = states.get_column("cpu").drop_nulls().unique().sort()
    texts += [f"CPU core: {core}" for core in cores]
    place = dict(zip(cores.to_list(), range(at, at + cores.len()), strict=True))
    is_running = pl.col("state") == "running"
    detail = pl.col("cpu").replace_strict(place, default=0, return_dtype=pl.Int64)
    events = states.select(
        "track", "start_ns", "end_ns", "id", "link",
        level=pl.lit(0, pl.Int64),
        name=pl.col("state").replace_strict(_NAMES, return_dtype=pl.String).cast(pl.Categorical),
        detail=pl.when(is_running).then(detail).otherwise(0),
        **{"class": FIRST_CLASS + pl.col("state").replace_strict(_CLASSES, return_dtype=pl.Int64)},
    )  # fmt: skip
    return events.select(columns), _make_tracks(threads)


def _choose_threads(run: Run) -> pl.DataFrame:
    """The threads that get a row: THREAD, thread_name and `track`, in the order of the rows."""
    named = (
        run.table("host_ops", ["layer", "tid"])
        .filter(pl.col("layer") != "os")
        .select("tid")
        .unique()
    )
    waited = run.ask("thread_states").select(
        "rank", "tid", "thread_name", "running_ns",
        waited=pl.col("preempted_ns") + pl.col("woken_ns"),
    )  # fmt: skip
    keys = run.table("sched_events").select(THREAD).unique()
    threads = keys.join(waited, on=["rank", "tid"], how="inner").with_columns(
        is_own=pl.col("tid").is_in(named.get_column("tid").implode())
    )
    order = threads.sort(
        "is_own", "waited", "running_ns", "tid", descending=[True, True, True, False]
    )
    return order.head(MOST_THREADS).select(
        *THREAD, "thread_name", track=pl.int_range(pl.len(), dtype=pl.Int64)
    )


def _link_wakers(run: Run, states: pl.DataFrame) -> pl.DataFrame:
    """`link` of the state that follows a sleep: what the thread that ended it was in then."""
    woken = list_sleeps(run).filter(pl.col("waker_tid").is_not_null())
    asked = woken.select("rank", "recording_id", "waker_tid", "tid", at="end_ns").sort("at")
    wakers = states.filter(pl.col("state") == "running").select(
        "rank", "recording_id", "end_ns", waker_tid="tid", start="start_ns", waker_id="id"
    )
    found = asked.join_asof(
        wakers.sort("start"),
        left_on="at",
        right_on="start",
        by=["rank", "recording_id", "waker_tid"],
        check_sortedness=False,
    ).filter(pl.col("at") <= pl.col("end_ns"))
    links = found.select("rank", "recording_id", "tid", start_ns="at", link="waker_id")
    links = links.unique([*THREAD, "start_ns"], keep="first")
    linked = states.join(links, on=[*THREAD, "start_ns"], how="left", maintain_order="left")
    is_sleep = pl.col("state").is_in(["blocked", "uninterruptible"])
    return linked.with_columns(link=pl.when(~is_sleep).then("link"))


def _make_tracks(threads: pl.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "rank": row["rank"],
            "device": None,
            "kind": "thread",
            "group": f"rank {row['rank']} · threads' states",
            "label": make_printable(f"{row['thread_name'] or 'thread'} {row['tid']}"),
            # Above the ranges of the CPU, of which a system's trace has hundreds of rows.
            "order": (row["rank"], 1, -(2**62), row["track"], 0, 0),
        }
        for row in threads.iter_rows(named=True)
    ]
