"""Every gap on a device, with its cause as far as the recording allows.

The ladder, first match wins. A gap ends when an operation starts; what is asked is why that
operation did not start earlier.

in_graph            it and the one before belong to one graph launch
launch_latency      its launch call had begun before the device ran dry, and was still on its way
dependency_wait     it was launched well before, and its stream had been told to wait for an event
micro_gap           it was launched well before, and the gap is shorter than `micro_ns`
profiler_overhead   launched late, and the profiler itself took most of the gap
data_loading        launched late, and the launching thread spent most of the gap in a DataLoader
alloc_or_load       launched late, and most of the gap went to allocating, freeing or loading code
host_sync           launched late, because the thread was waiting for the device when it ran dry
host_late           launched late for any other reason: the thread was busy, or not running
unknown             no launch call was recorded, or none of the above
"""

from __future__ import annotations

import polars as pl

from sightline.algebra.intervals import find_gaps, measure_cover_until
from sightline.algebra.latest import find_latest
from sightline.algebra.lookup import Texts, find_rows, take_rows
from sightline.algebra.trees import find_open_range
from sightline.model.columns import RANK, duration, join, number, text, time
from sightline.model.declare import Analysis, Param
from sightline.model.run import Run
from sightline.timeline.api_calls import allocates, is_own_cost, loads_code, may_wait
from sightline.timeline.host_ranges import LOADING, list_ranges

CAUSES = (
    "host_sync",
    "host_late",
    "data_loading",
    "alloc_or_load",
    "profiler_overhead",
    "launch_latency",
    "dependency_wait",
    "in_graph",
    "micro_gap",
    "unknown",
)

# A gap under 5 µs between queued kernels is the hardware's own start-up time: launch overhead of
# back-to-back kernels is 1 to 5 µs (measured figures in NVIDIA's blog "Getting Started with CUDA
# Graphs", 2019: 2.9 µs kernel, 3.8 µs per kernel with overlapped launch).
MICRO_NS = 5_000
# Call begin to kernel start on an idle device, where the recording's own launches do not tell: the
# upper end of what is usual. Measured with `sightline stats kernel_launches` at queue depth 0 on
# TraceLens's three H100 recordings: medians 6.5 to 7.5 µs.
FALLBACK_LATENCY_NS = 10_000

_WAIT_EVENT = r"StreamWaitEvent"

ANALYSIS = Analysis(
    "idle_gaps",
    "When was nothing running on a device, and why?",
    (
        RANK,
        number("device_id", "device", required=True),
        time("start_ns", "end of the last operation before the gap"),
        time("end_ns", "start of the next operation, or the window's end"),
        duration("duration_ns", "length of the gap"),
        text("cause", "see the ladder", required=True),
        join("before_id", "device_ops.device_op_id", "operation that ended last before the gap"),
        join("after_id", "device_ops.device_op_id", "operation that ends the gap"),
        text("after", "its name"),
        join("launch_id", "host_ops.host_op_id", "the call that launched it"),
        text("launch", "name of the call"),
        duration("launch_late_ns", "how long after the gap's start the call began; null in time"),
        join(
            "host_op_id",
            "host_ops.host_op_id",
            "what the launching thread was in, in the middle of the time until the call",
        ),
        text("host_op", "its name"),
    ),
    needs=("device_ops",),
    params=(
        Param("threshold_ns", 0, "leave out gaps that are not longer than this", "ns"),
        Param("micro_ns", MICRO_NS, "gaps of queued work shorter than this are micro_gap", "ns"),
    ),
    notes=("Gaps are of the device as a whole: a stream without work is no gap.",),
)

_BY = ["rank", "device_id"]
_THREAD = ["rank", "pid", "tid"]
_IN_API = pl.col("layer").is_in(["runtime", "driver"])


def run(run: Run, *, threshold_ns: int, micro_ns: int) -> pl.DataFrame:
    """One row per gap, in order of device and time."""
    ops = run.table("device_ops")
    ops = ops.select("device_op_id", *_BY, "kind", "name", "start_ns", "end_ns", "launch_id")
    found = _find_neighbours(find_gaps(ops, run.ask("windows"), _BY), ops)
    host = run.table("host_ops")
    called = find_rows(host.get_column("host_op_id"), found.get_column("launch_id"))
    calls = host.select("pid", "tid", launch="name", call_ns="start_ns", call_end_ns="end_ns")
    found = found.hstack(take_rows(calls, called)).with_columns(
        # From the moment the device ran dry until the call, or the gap's end if that is earlier.
        until_ns=pl.min_horizontal("call_ns", "end_ns"),
        is_late=pl.col("call_ns") >= pl.col("start_ns"),
    )
    ranges, names = list_ranges(run)
    found = _measure_host_activity(found, host, ranges, names)
    waits = ranges.filter(names.match(_WAIT_EVENT)).filter(_IN_API)
    found = found.with_columns(
        waits=_waited(found, ops, host, waits),
        latency_ns=pl.lit(_measure_launch_latency(ops, host)),
    )
    return (
        found.with_columns(
            duration_ns=pl.col("end_ns") - pl.col("start_ns"),
            cause=_name_cause(micro_ns),
            launch_late_ns=pl.when("is_late").then(pl.col("call_ns") - pl.col("start_ns")),
        )
        .filter(pl.col("duration_ns") > threshold_ns)
        .sort(*_BY, "start_ns")
        .select(c.name for c in ANALYSIS.columns)
    )


def _name_cause(micro_ns: int) -> pl.Expr:
    """The ladder of this module's docstring."""
    length = pl.col("end_ns") - pl.col("start_ns")
    in_flight = (pl.col("call_end_ns") > pl.col("start_ns")) | (
        # Twice the usual latency: half of all launches take longer than the median.
        pl.col("call_ns") + 2 * pl.col("latency_ns") >= pl.col("end_ns")
    )
    return (
        pl.when(pl.col("launch_id").is_null())
        .then(pl.lit("unknown"))
        .when(pl.col("launch_id") == pl.col("launch_before"))
        .then(pl.lit("in_graph"))
        .when(~pl.col("is_late") & in_flight)
        .then(pl.lit("launch_latency"))
        .when(~pl.col("is_late") & pl.col("waits"))
        .then(pl.lit("dependency_wait"))
        .when(~pl.col("is_late") & (length < micro_ns))
        .then(pl.lit("micro_gap"))
        .when(~pl.col("is_late"))
        .then(pl.lit("unknown"))
        .when(2 * pl.col("overhead_ns") > length)
        .then(pl.lit("profiler_overhead"))
        .when(2 * pl.col("loading_ns") > length)
        .then(pl.lit("data_loading"))
        .when(2 * pl.col("allocating_ns") > length)
        .then(pl.lit("alloc_or_load"))
        .when("blocked")
        .then(pl.lit("host_sync"))
        .otherwise(pl.lit("host_late"))
    )


def _find_neighbours(found: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Gaps with the operation that ends each one, and the one that ended last before it."""
    after = find_latest(
        found.select(*_BY, at=-pl.col("end_ns")),
        "at",
        ops.select(*_BY, "device_op_id", t=-pl.col("start_ns")),
        "t",
        _BY,
        ties=["device_op_id"],
    )
    before = find_latest(found, "start_ns", ops, "end_ns", _BY, ties=["device_op_id"])
    return found.hstack(
        take_rows(ops.select("launch_id", after_id="device_op_id", after="name"), after)
    ).hstack(take_rows(ops.select(before_id="device_op_id", launch_before="launch_id"), before))


def _measure_host_activity(
    found: pl.DataFrame, host: pl.DataFrame, ranges: pl.DataFrame, names: Texts
) -> pl.DataFrame:
    """What the launching thread did between the gap's start and the call, in ns per kind."""
    loading = ranges.filter(names.match(LOADING)).filter(~_IN_API)
    is_cost = pl.col("layer") == "overhead"
    allocating = ranges.filter(allocates(names) | loads_code(names)).filter(_IN_API | is_cost)
    blocking = ranges.filter(may_wait(names)).filter(_IN_API)
    overhead = ranges.filter(~is_own_cost(names)).filter(is_cost)
    inside = find_open_range(
        blocking.with_columns(parent_id=pl.lit(None, pl.Int64)), found, "start_ns"
    )
    # Only of late launches it is asked what the thread was in.
    late = found.filter("is_late").select(
        *_THREAD, middle=(pl.col("start_ns") + pl.col("until_ns")) // 2
    )
    at = find_open_range(ranges, late, "middle")
    rows = pl.repeat(None, found.height, dtype=pl.Int64, eager=True).scatter(
        found.get_column("is_late").fill_null(value=False).arg_true(), at
    )
    inner = find_rows(host.get_column("host_op_id"), rows)
    return found.with_columns(
        loading_ns=_measure_between(found, loading, _THREAD),
        allocating_ns=_measure_between(found, allocating, _THREAD),
        overhead_ns=_measure_between(found, overhead, ["rank"]),
        blocked=inside.is_not_null(),
        host_op_id=rows,
        host_op=host.get_column("name").gather(inner),
    )


def _measure_between(found: pl.DataFrame, ranges: pl.DataFrame, by: list[str]) -> pl.Series:
    """How much of each gap, up to the call, lies in the ranges of its thread."""
    return measure_cover_until(found, "until_ns", ranges, by) - measure_cover_until(
        found, "start_ns", ranges, by
    )


def _measure_launch_latency(ops: pl.DataFrame, host: pl.DataFrame) -> int:
    """The recording's own time from a launch call's begin to the start on an idle device, ns.

    The 10th percentile over all launches, since a queue only ever adds to it; where every launch
    queues even that is no latency, so it is never taken for more than the usual upper end.
    """
    called = find_rows(host.get_column("host_op_id"), ops.get_column("launch_id"))
    delays = ops.get_column("start_ns") - host.get_column("start_ns").gather(called)
    delays = delays.filter((ops.get_column("kind") == "kernel") & (delays > 0))
    if delays.len() < 10:
        return FALLBACK_LATENCY_NS
    tenth = int(delays.quantile(0.1, interpolation="lower") or FALLBACK_LATENCY_NS)
    return min(tenth, FALLBACK_LATENCY_NS)


def _waited(
    found: pl.DataFrame, ops: pl.DataFrame, host: pl.DataFrame, waits: pl.DataFrame
) -> pl.Series:
    """Whether the stream of the gap's last operation was told to wait for an event before it.

    The recording seldom says which stream a wait is for, so a wait counts for the first launch
    that follows it on the same thread.
    """
    if waits.is_empty():
        return pl.repeat(value=False, n=found.height, eager=True)
    launched = find_rows(host.get_column("host_op_id"), ops.get_column("launch_id")).unique()
    columns = [*_THREAD, "host_op_id", "start_ns"]
    launches = take_rows(host.select(columns), launched.drop_nulls())
    events = pl.concat(
        [
            waits.select(*columns).with_columns(launches=pl.lit(value=False)),
            launches.with_columns(launches=pl.lit(value=True)),
        ]
    )
    # Of a wait and a launch at one moment the wait was the first.
    events = events.sort(*_THREAD, "start_ns", "launches", maintain_order=True)
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(1)) for c in _THREAD)
    after_wait = events.filter(
        "launches", same & ~pl.col("launches").shift(1, fill_value=True)
    ).get_column("host_op_id")
    return found.get_column("launch_id").is_in(after_wait.implode()).fill_null(value=False)
