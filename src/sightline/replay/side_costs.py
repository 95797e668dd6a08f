"""What recording cost the hosts of several recordings of one program, at one pace of the host.

One recording alone shows by how much its launches differ (recorder_cost.py), and cannot show that
all of it ran on a slow core. Beside another recording of the same program it does (host_pace.py).
So the sides of a comparison are brought to one pace, and the recorder's cost is what is left:

- A thread that was slower all along was so in all that it did.
- A moment that was slower than its thread usually is had its data in no cache: of a stretch it
  costs 3 µs at most, since what takes longer is the program's.
- Short stretches beside Python frames are the recorder's, as in one recording.

On seven pairs that were host-bound on one side at least and measured without a profiler, the change
of a step is off by 5 points in the mean, with the estimates of each side by 13, as recorded by 18.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from sightline.core.model.run import Run
from sightline.replay.host_pace import measure_paces
from sightline.replay.recorder_cost import (
    LAYERS,
    MOST_OF_STRETCH_NS,
    SHORT_FRAME_NS,
    THREAD,
    RecorderCost,
    add_up_taken,
    list_events,
)


def estimate_side_costs(
    runs: Sequence[Run], nodes: Sequence[pl.DataFrame]
) -> list[dict[int, RecorderCost]]:
    """For each run what recording, and a slower host, cost the launching threads of its ranks."""
    sides = [_list_stretches(run, mine) for run, mine in zip(runs, nodes, strict=True)]
    paces = measure_paces(sides)
    return [_add_up(side.hstack(pace)) for side, pace in zip(sides, paces, strict=True)]


def _list_stretches(run: Run, nodes: pl.DataFrame) -> pl.DataFrame:
    """The time from each event of the launching threads to that thread's next one, in order."""
    wanted = [*THREAD, "layer", "name", "start_ns", "end_ns", "depth"]
    host = run.table("host_ops", wanted).filter(pl.col("layer").is_in(LAYERS))
    events = list_events(host, nodes, *THREAD, "layer", "name")
    # A runtime call is the same work, whichever of the two tables it stands in.
    kind = pl.col("layer").replace("driver", "runtime")
    return events.select(
        "rank",
        "at",
        thread=pl.struct(THREAD).rank("dense").cast(pl.Int32),
        of=pl.struct(kind, "name", "begins").hash(),
        is_frame=pl.col("layer") == "python",
    ).with_columns(
        ns=(pl.col("at").shift(-1) - pl.col("at")).over("thread"),
        next=pl.col("of").shift(-1).over("thread"),
        by_frame=pl.col("is_frame") | pl.col("is_frame").shift(-1).over("thread"),
    )


def _add_up(stretches: pl.DataFrame) -> dict[int, RecorderCost]:
    """What each stretch is longer by, added up at its end, rank by rank."""
    ns, core, pace = pl.col("ns"), pl.col("core"), pl.col("pace")
    cold = (ns / core * (1 - core / pace)).clip(upper_bound=MOST_OF_STRETCH_NS)
    slower = ns - ns / core + cold
    short_frame = pl.col("by_frame") & (ns < SHORT_FRAME_NS)
    taken = pl.when(short_frame).then(ns).otherwise(slower).round().cast(pl.Int64)
    ended = stretches.select("rank", "at", taken=taken.shift(1).over("thread"))
    return {
        rank: replace(add_up_taken(mine.drop("rank")), of_waits=True)
        for (rank,), mine in ended.partition_by("rank", as_dict=True).items()
    }
