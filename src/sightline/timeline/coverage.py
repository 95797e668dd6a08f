"""What was launched and not recorded: where the device looks idle then, nobody knows.

A graph whose nodes the profiler did not expand, a buffer that was lost, an activity that was not
switched on: the call is in the recording, and the work is not.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import Texts
from sightline.core.model.declare import Quality
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.timeline.api_calls import launches_graph, launches_kernels
from sightline.timeline.host_ranges import IN_API, list_capture_ranges

_THREAD = ["rank", "pid", "tid"]
# Where fewer than half of the launches have their work, calls and work were not linked: nothing is
# known of any one of them (ours).
_LEAST_LINKED = 0.5


# As the other shares of records that bias a sum (`quality_gate`).
_SHARE_PCT = 5.0


def note_lost_kernels(run: Run) -> Quality | None:
    """What is to be said of launches whose kernels were lost in the midst of the recording.

    Those behind the last launch that has its kernel are no loss: the recording ended before them.
    """
    lost, height = run.once(_count_lost_kernels)
    if not lost:
        return None
    text = (
        f"of {format_several(height, 'kernel launch', 'kernel launches')} have no kernel in the "
        f"recording: the profiler lost {'it' if lost == 1 else 'them'}, and where the GPU looks "
        "idle meanwhile, it may have worked"
    )
    remedy = "Record again: fewer steps, after a warm-up, with no other profiler in the process."
    severity = "warning" if 100 * lost >= _SHARE_PCT * height else "info"
    return Quality("lost_kernels", severity, text, lost, remedy)


def _count_lost_kernels(run: Run) -> tuple[int, int]:
    """Launches of kernels without one, and all launches, up to the last that has one."""
    lost = list_lost_launches(run)
    if lost.is_empty():
        return 0, 0
    columns = ["host_op_id", "rank", "name", "layer", "start_ns", "return_value"]
    calls = run.table("host_ops", columns)
    calls = calls.filter(launches_kernels(Texts(calls.get_column("name"))), IN_API)
    linked = run.columns("device_ops", ("launch_id",)).get_column("launch_id").drop_nulls()
    is_own = pl.col("host_op_id").is_in(linked.unique().implode())
    own = calls.filter(is_own)
    last = own.group_by("rank").agg(last_ns=pl.col("start_ns").max())
    succeeded = pl.col("return_value").fill_null(0) == 0
    missing = (
        calls.filter(succeeded & ~is_own)
        .join(lost.unique(), on=["rank", "start_ns"], how="semi")
        .join(last, on="rank")
        .filter(pl.col("start_ns") < pl.col("last_ns"))
    )
    # Kernels without a launch may be theirs: then what was lost is the numbers that tie them.
    kinds = run.table("device_ops", ["kind", "launch_id"])
    untied = kinds.filter(pl.col("launch_id").is_null(), pl.col("kind") == "kernel").height
    return max(0, missing.height - untied), own.height + missing.height


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
