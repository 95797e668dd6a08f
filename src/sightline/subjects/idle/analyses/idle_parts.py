"""What each idle gap's time went to: every nanosecond of a gap has one cause.

A gap ends when an operation starts. Until the operation's launch call begins, the host is late;
from there on the operation is launched, and does not start yet.

Before the launch call, by what the launching thread was in (of two at once the first named):

profiler_overhead   the profiler itself, on any thread of the rank
preempted           in none: it was ready, and another thread had its CPU core
cpu_oversubscribed  the same, mostly while more threads wanted to run than there are cores
interrupted         in none: its CPU core handled an interrupt
no_request          in none: an inference server that had no request to run
compiling           a compiler
code_loading        a call that loads, links or looks up device code
data_loading        a DataLoader
graph_capture       the capture of a graph, or a call that builds one
checkpoint          writing a checkpoint, by the name of a range
allocation          a call that allocates or frees memory
host_sync           a call that waits for the device, until it returns; not one that is made when
                    nothing runs, unless it takes over 40 µs
late_sender         an MPI receive, while the other rank had not begun to send
blocked_io          it slept until a disk or the network had served it
lock_wait           it slept in a call that waits for a lock, until another thread woke it
host_late           none of these: the thread was busy with something else, or not running

After it:

code_loading        inside the launch call, where it is the first of its kernel and unusually long
slow_launch         inside the launch call, where that is unusually long otherwise; preempted,
                    cpu_oversubscribed, interrupted, blocked_io and lock_wait there are so named
dependency_wait     its stream had been told to wait for an event
not_recorded        work was launched in between that is not in the recording (a graph's nodes, a
                    lost buffer), or the stream waits for an event for 50 µs and more while nothing
                    that was recorded runs and the rank has no other device: unknown, not idle
micro_gap           it was queued, and the wait is shorter than `micro_ns`
not_started         it was queued, nothing that is recorded runs, and yet it does not start

Not cut are gaps of one kind:

in_graph            it and the one before belong to one graph launch
launch_latency      its launch was under way when the device ran dry
unknown             no launch call was recorded, or none exists (migrations of managed memory)

What the operating system did is known where its context switches were recorded: with the GPU, or
in a trace of the system that is opened together with the recording.

What a launch usually takes belongs to the cause before it: it would have been hidden behind other
work. So does the time in which the thread, back from what held it, prepares the next launch at its
usual pace.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.model.columns import RANK, duration, join, number, text, time
from sightline.core.model.declare import Analysis, Param
from sightline.core.model.run import Run
from sightline.timeline.idle import MICRO_NS, list_idle_parts

ANALYSIS = Analysis(
    "idle_parts",
    "What did the time of each idle gap go to?",
    (
        RANK,
        number("device_id", "device", required=True),
        time("start_ns", "start of the gap"),
        time("end_ns", "end of the gap"),
        text("cause", "what this part of the gap went to", required=True),
        duration("part_ns", "how much of the gap went to it; a gap's parts sum to its length"),
        join("before_id", "device_ops.device_op_id", "operation that ended last before the gap"),
        join("after_id", "device_ops.device_op_id", "operation that ends the gap"),
        join("launch_id", "host_ops.host_op_id", "the call that launched it"),
        join("host_op_id", "host_ops.host_op_id", "what the launching thread was in meanwhile"),
        text("host_op", "its name"),
    ),
    needs=("device_ops",),
    params=(
        Param("micro_ns", MICRO_NS, "waits of queued work shorter than this are micro_gap", "ns"),
    ),
    notes=("Gaps are of the device as a whole: a stream without work is not a gap.",),
    worst="part_ns",
)


def run(run: Run, *, micro_ns: int) -> pl.DataFrame:
    """One row per gap and cause, in order of device and time."""
    parts = list_idle_parts(run, micro_ns)
    host = run.table("host_ops", ["host_op_id", "name"])
    inner = find_rows(host.get_column("host_op_id"), parts.get_column("host_op_id"))
    return parts.with_columns(host_op=host.get_column("name").gather(inner)).select(
        c.name for c in ANALYSIS.columns
    )
