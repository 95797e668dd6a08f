"""What the run's length is made of: the chain of work and waiting that leads to its last end.

Only what is on the path can shorten the run: something faster elsewhere changes nothing. Each
piece is work (compute, communication, copy or memset, CPU in a call), or the time until the next
could begin (CPU code between calls, launch latency, gap on the stream, event wait, return of a
wait), or what the recording does not explain. "launch not recorded" is time before an operation
that nothing else held and whose launch call the recording lacks: most likely the host came late.
"launched, not started" is time in which an operation was launched, nothing recorded held it, and a
call of its process waited for the device: most likely the driver held it, or something unrecorded.
"start of a graph" is such time before the first operation of a graph: most likely the graph was
uploaded, or begins with operations that the recording lacks.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import take_rows
from sightline.core.model.columns import RANK, duration, join, number, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.replay import critical_path as path
from sightline.replay.gains import sort_recorded
from sightline.replay.graph import list_nodes

ANALYSIS = Analysis(
    "critical_path",
    "What makes up the run's length?",
    (
        time("start_ns", "start of the piece"),
        time("end_ns", "end of the piece, which is the start of the next one"),
        duration("duration_ns", "length of the piece"),
        text("part", "what kind of work or waiting it is", required=True),
        text(
            "basis",
            "its evidence: recorded; inferred (an event wait, or starts and ends that meet); "
            "guessed; null where nothing explains it",
        ),
        text("name", "call or operation that it belongs to, or leads to", required=True),
        RANK,
        number("device_id", "device"),
        join("device_op_id", "device_ops.device_op_id", "the operation, if it is one"),
        join("host_op_id", "host_ops.host_op_id", "the call, if it is one"),
    ),
    needs=("device_ops",),
    notes=(
        "Of the device whose window is the longest; the pieces sum to that window exactly.",
        "Edges are those of `dependencies`.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per piece, in order of time."""
    nodes = list_nodes(run)
    length = pl.col("window_end_ns") - pl.col("window_start_ns")
    longest = run.ask("windows").sort(length, descending=True).row(0, named=True)
    begin = longest["window_start_ns"]
    mine = nodes.filter(
        ~pl.col("kind").is_in(["call", "finish"]),
        pl.col("rank") == longest["rank"],
        pl.col("device_id") == longest["device_id"],
        pl.col("start_ns").is_between(begin, longest["window_end_ns"]),
    )
    end = mine.get_column("end_ns").max()
    pieces = path.trace_critical_path(
        nodes, begin, end if isinstance(end, int) else begin, sort_recorded(run)
    )
    is_host = pl.col("kind").is_in(["call", "finish"])
    return (
        pieces.hstack(
            take_rows(
                nodes.select("kind", "rank", "device_id", "name", "ref_id"),
                pieces.get_column("node"),
            )
        )
        .with_columns(
            duration_ns=pl.col("end_ns") - pl.col("start_ns"),
            device_op_id=pl.when(~is_host).then("ref_id"),
            host_op_id=pl.when(is_host).then("ref_id"),
        )
        .select(c.name for c in ANALYSIS.columns)
    )
