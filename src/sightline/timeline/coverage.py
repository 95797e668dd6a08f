"""What was launched and not recorded: where the device looks idle then, nobody knows.

A graph whose nodes the profiler did not expand, a buffer that was lost, an activity that was not
switched on: the call is in the recording, and the work is not.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import Texts
from sightline.core.model.run import Run
from sightline.timeline.api_calls import launches_graph, launches_kernels
from sightline.timeline.host_ranges import IN_API, list_capture_ranges

_THREAD = ["rank", "pid", "tid"]
# Where fewer than half of the launches have their work, calls and work were not linked: nothing is
# known of any one of them (ours).
_LEAST_LINKED = 0.5


def list_lost_launches(run: Run) -> pl.DataFrame:
    """The calls whose kernels or graphs are not in the recording: rank and start_ns, in order.

    None where calls and work were not linked. A launch that a stream captures runs nothing, and a
    runtime's call around the driver's is the same launch.
    """
    return run.once(_list_lost_launches)


def _list_lost_launches(run: Run) -> pl.DataFrame:
    columns = ["host_op_id", *_THREAD, "name", "layer", "start_ns", "end_ns"]
    calls = run.table("host_ops", columns)
    nothing = calls.select("rank", "start_ns").clear()
    linked = run.columns("device_ops", ("launch_id",)).get_column("launch_id").drop_nulls()
    names = Texts(calls.get_column("name"))
    calls = calls.filter(launches_kernels(names) | launches_graph(names), IN_API)
    has_work = calls.get_column("host_op_id").is_in(linked.unique().implode())
    lost, own = calls.filter(~has_work), calls.filter(has_work)
    if lost.is_empty() or own.height < _LEAST_LINKED * calls.height:
        return nothing
    captures = list_capture_ranges(run)
    for around in (own, captures.select(*_THREAD, "start_ns", "end_ns")):
        last = find_latest(lost, "end_ns", around, "start_ns", _THREAD)
        until = around.get_column("end_ns").gather(last)
        lost = lost.filter((until < lost.get_column("start_ns")).fill_null(value=True))
    return lost.select("rank", "start_ns").sort("rank", "start_ns")
