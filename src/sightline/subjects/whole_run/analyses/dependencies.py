"""What each call and each device operation waited for: the graph that what-if questions replay."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.replay.graph import list_nodes

ANALYSIS = Analysis(
    "dependencies",
    "What did each host call and each device operation wait for?",
    (
        number("node", "place in an order in which all come after what they wait for"),
        text("kind", "call, finish (the return of a call that waits), or the operation's kind"),
        RANK,
        number("device_id", "device; of a call: the one that its thread launches on"),
        number("stream_id", "stream"),
        number("pid", "process of a call"),
        number("tid", "thread of a call"),
        text("name", "name of the call or operation", required=True),
        number("ref_id", "host_op_id of a call, device_op_id of an operation", required=True),
        time("start_ns", "start"),
        time("end_ns", "end"),
        number("prev", "node before it on its thread or stream"),
        duration("prev_lag_ns", "least time from that node's end"),
        number("launch", "node that launched it; of a full queue: the start that made room"),
        duration("launch_lag_ns", "least time from that node's start"),
        number("wait", "node of another stream, or of the device, that it waited for"),
        duration("wait_lag_ns", "least time from that node's end"),
        text(
            "wait_by",
            "how that is known: event (recorded), timing (inferred), callback (a host function "
            "woke the thread)",
        ),
        number("guess", "node of another stream that it may have waited for; replays ignore it"),
        duration("residual_ns", "time after the latest of these that nothing explains"),
        number("meeting", "collective that it belongs to, where ranks could be matched"),
        duration("meeting_lag_ns", "from the last member's start to its own end"),
    ),
    needs=("device_ops",),
    notes=(
        "start = the latest of the three moments + residual_ns, exactly as recorded.",
        "Threads of one process that launch on one device are taken to hand over to each other.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per call, waiting call's return, and device operation."""
    return list_nodes(run)
