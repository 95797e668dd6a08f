"""What each idle gap's time went to: the gap cut at its launch call, and the host's part by deeds.

How a gap is cut is told in idle_launches.py, how the host's part is shared out in idle_host.py.
What the causes mean is told where people read it: in the analysis `idle_parts`.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import find_gaps, measure_cover_between
from sightline.core.algebra.lookup import find_rows, take_rows
from sightline.core.model.run import Run
from sightline.timeline.api_calls import loads_code, orders_streams
from sightline.timeline.engine_gaps import list_idle_spans
from sightline.timeline.host_ranges import (
    IN_API,
    list_capture_ranges,
    list_range_parents,
    list_ranges,
    list_saving_ranges,
)
from sightline.timeline.idle_host import HOST_CAUSES, measure_host_causes
from sightline.timeline.idle_launches import (
    cut_at_launch,
    find_lost_launches,
    find_neighbours,
    find_prefetches,
    is_told_to_wait,
    measure_launch_latency,
    waits_for_unrecorded,
)
from sightline.timeline.system_waits import cut_to_spans, list_waits_in_spans

CAUSES = (
    *HOST_CAUSES,
    "launch_latency",
    "slow_launch",
    "dependency_wait",
    "not_recorded",
    "not_started",
    "in_graph",
    "micro_gap",
    "unknown",
)

# A gap under 5 µs between queued kernels is the hardware's own start-up time: launch overhead of
# back-to-back kernels is 1 to 5 µs (measured figures in NVIDIA's blog "Getting Started with CUDA
# Graphs", 2019: 2.9 µs kernel, 3.8 µs per kernel with overlapped launch).
MICRO_NS = 5_000
# Gaps up to so many usual intervals between launches are the pace of launching; longer ones are
# something else that the host did once (ours: a start-up of seconds must not count as pace).
PACE_INTERVALS = 10

_IS_COST = pl.col("layer") == "overhead"
_BY = ["rank", "device_id"]
_THREAD = ["rank", "pid", "tid"]
# What is asked of a device operation.
_OP = (
    "device_op_id",
    *_BY,
    "kind",
    "name",
    "start_ns",
    "end_ns",
    "launch_id",
    "migration_cause",
)
_KEPT = (
    *_BY,
    "start_ns",
    "end_ns",
    "before_id",
    "after_id",
    "after",
    "launch_id",
    "launch",
    "call_ns",
    "is_late",
)


def list_idle_gaps(run: Run) -> pl.DataFrame:
    """One row per gap: its neighbours, its launch, and a column `CAUSE_ns` for each host cause.

    In order of device and time. What lies behind the launch call is in `slow_launch_ns` and
    `queued_ns`, the latter named by `queued`: how short a wait is a micro gap, is for who asks to
    say. All of them sum to the gap. Until `waited_ns` the device waits for the thread.
    """
    return run.once(_make_idle_gaps)[0]


def list_deeds(run: Run) -> pl.DataFrame:
    """What threads did that is a cause of its own, where gaps were: rank, pid, tid and times."""
    return run.once(_make_idle_gaps)[1]


def list_idle_parts(run: Run, micro_ns: int) -> pl.DataFrame:
    """One row per gap and cause that took time of it: `gap`, `cause`, `part_ns`, `host_op_id`.

    `gap` numbers the gaps, in order of device and time; the rows are in that order.
    """
    gaps = list_idle_gaps(run).with_row_index("gap")
    is_micro = (pl.col("queued") == "not_started") & (pl.col("queued_ns") < micro_ns)
    parts = [
        *((c, pl.lit(c), f"{c}_op") for c in HOST_CAUSES),
        ("slow_launch", pl.lit("slow_launch"), "launch_id"),
        ("queued", pl.when(is_micro).then(pl.lit("micro_gap")).otherwise("queued"), "queued_op"),
    ]
    # Most causes have no part in most recordings.
    taken = gaps.select((pl.col(f"{part}_ns") > 0).any() for part, _, _ in parts).row(0)
    taken = taken if any(taken) else (True, *taken[1:])
    rows = [
        gaps.filter(pl.col(f"{part}_ns") > 0).select(
            "gap",
            *_KEPT,
            cause=cause.cast(pl.String),
            part_ns=f"{part}_ns",
            host_op_id=op,
            turn=pl.lit(turn, pl.Int8),
        )
        for turn, (part, cause, op) in enumerate(parts)
        if taken[turn]
    ]
    return pl.concat(rows).sort("gap", "turn").drop("turn")


def _make_idle_gaps(run: Run) -> tuple[pl.DataFrame, pl.DataFrame]:
    host = run.table("host_ops", ["host_op_id", *_THREAD, "name", "start_ns", "end_ns"])
    ops = find_prefetches(run.table("device_ops", _OP), host)
    found = find_neighbours(find_gaps(ops, run.ask("windows"), _BY), ops)
    called = find_rows(host.get_column("host_op_id"), found.get_column("launch_id"))
    calls = host.select("pid", "tid", launch="name", call_ns="start_ns", call_end_ns="end_ns")
    found = found.hstack(take_rows(calls, called))
    found = find_lost_launches(run, found, host)
    found = cut_at_launch(found, measure_launch_latency(ops, host))
    ranges, names = list_ranges(run)
    loading = ranges.filter(loads_code(names) & (ranges.select(IN_API | _IS_COST).to_series()))
    found = _find_end_of_wait(found, loading)
    spans = _list_launch_spans(found)
    waits = {
        cause: cut_to_spans(each, spans, _THREAD).with_columns(host_op_id=pl.lit(None, pl.Int64))
        for cause, each in list_waits_in_spans(run, spans).items()
    }
    found, deeds = measure_host_causes(
        run,
        found,
        ranges,
        names,
        list_range_parents(run),
        ops,
        {
            "code_loading": loading,
            "graph_capture": list_capture_ranges(run),
            "checkpoint": list_saving_ranges(run),
            "late_sender": _list_waits_for_senders(run),
            "no_request": list_idle_spans(run),
        },
        waits,
    )
    orders = ranges.filter(orders_streams(names)).filter(IN_API)
    told = is_told_to_wait(found, ops, host, orders)
    found = found.with_columns(
        queued=pl.when(pl.col("launch_id").is_null())
        .then(pl.lit("unknown"))
        .when("in_graph")
        .then(pl.lit("in_graph"))
        .when(pl.col("lost_ns").is_not_null() | waits_for_unrecorded(ops, told))
        .then(pl.lit("not_recorded"))
        .when("on_its_way")
        .then(pl.lit("launch_latency"))
        .when(told)
        .then(pl.lit("dependency_wait"))
        .otherwise(pl.lit("not_started"))
    )
    parts = [f"{cause}_{of}" for cause in HOST_CAUSES for of in ("ns", "op")]
    kept = (
        *_KEPT,
        *_THREAD[1:],
        "runtime",
        "waited_ns",
        "slow_launch_ns",
        "queued",
        "queued_ns",
        "queued_op",
    )
    return found.select(*kept, *parts), deeds


def _list_waits_for_senders(run: Run) -> pl.DataFrame:
    """When threads received from ranks that had not sent yet, between clocks that were compared."""
    from sightline.timeline.mpi_waits import LATE_SENDER, list_mpi_waits

    columns = [*_THREAD, "host_op_id", "start_ns", "end_ns"]
    if not run.rows("mpi_events"):
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))
    waits = list_mpi_waits(run).filter(pl.col("pattern") == LATE_SENDER, "is_comparable")
    return waits.select(columns)


def list_system_waits(run: Run) -> pl.DataFrame:
    """When the operating system kept threads that launch from running: all of SYSTEM_CAUSES.

    Columns: rank, pid, tid, start_ns, end_ns. Empty where context switches were not recorded.
    """
    return run.once(_list_system_waits)


def _list_system_waits(run: Run) -> pl.DataFrame:
    schema = dict.fromkeys((*_THREAD, "start_ns", "end_ns"), pl.Int64)
    spans = _list_launch_spans(list_idle_gaps(run))
    return pl.concat([pl.DataFrame(schema=schema), *list_waits_in_spans(run, spans).values()])


def _find_end_of_wait(found: pl.DataFrame, loading: pl.DataFrame) -> pl.DataFrame:
    """Gaps with `loaded`: their launch loads code; and `waited_ns`: until then a thread is late."""
    # The first launch of a kernel loads its code, where the driver loads lazily.
    inside = measure_cover_between(found, "host_end_ns", "end_ns", loading, _THREAD)
    found = found.with_columns(loaded=pl.col("is_first") | (pl.lit(inside) > 0))
    late_until = pl.col("host_end_ns") + pl.col("slow_ns")
    return found.with_columns(waited_ns=pl.min_horizontal(late_until, "call_end_ns"))


def _list_launch_spans(found: pl.DataFrame) -> pl.DataFrame:
    """From each gap's start until its device no longer waits for the thread that launches."""
    spans = found.drop_nulls("launch_id").select(*_THREAD, "start_ns", end_ns="waited_ns")
    return spans.filter(pl.col("start_ns") < pl.col("end_ns"))
