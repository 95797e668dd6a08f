"""The host's part of idle gaps: which cause each moment went to, until the device no longer waits.

What the causes mean is told where people read it: in the analysis `idle_parts`.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import is_one_group, measure_cover_between
from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import Texts
from sightline.core.algebra.order import sort_rows
from sightline.core.algebra.trees import find_open_range
from sightline.core.model.run import Run
from sightline.timeline.api_calls import allocates, is_own_cost, may_wait, synchronizes
from sightline.timeline.callback_waits import list_callback_waits
from sightline.timeline.host_ranges import IN_API, LOADING, PACE_NS, is_compiler
from sightline.timeline.idle_compilers import lend_to_helpers, name_compiling
from sightline.timeline.idle_names import find_covering, find_longest
from sightline.timeline.idle_runtimes import infer_runtimes
from sightline.timeline.lent_waits import lend_waits
from sightline.timeline.loader_starts import list_loader_starts

# What the operating system did with the thread, where it was recorded (timeline/system_waits.py).
# Without a core it does nothing else, whatever call it is in; what it sleeps for is its call's.
_NO_CORE = ("preempted", "cpu_oversubscribed", "interrupted")
_SLEEPS = ("blocked_io", "lock_wait")
SYSTEM_CAUSES = (*_NO_CORE, *_SLEEPS)
# In order: of two things at once the first counts.
HOST_CAUSES = (
    "profiler_overhead",
    *_NO_CORE,
    "no_request",
    "compiling",
    "code_loading",
    "data_loading",
    "graph_capture",
    "checkpoint",
    "allocation",
    "host_sync",
    "late_sender",
    *_SLEEPS,
    "host_late",
)

# A synchronization with a device that has nothing to do returns within this time: of 155 such calls
# in 16 real recordings (of PyTorch's profiler and Nsight Systems) the median took 3 µs, and the
# longest 32 µs. What takes longer waited for something that is not recorded.
IDLE_WAIT_NS = 40_000

_IS_COST = pl.col("layer") == "overhead"
_THREAD = ["rank", "pid", "tid"]


def measure_host_causes(
    run: Run,
    found: pl.DataFrame,
    ranges: pl.DataFrame,
    names: Texts,
    parent_rows: pl.Series,
    ops: pl.DataFrame,
    deeds: dict[str, pl.DataFrame],
    waits: dict[str, pl.DataFrame],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Gaps with the ns that went to each host cause, and what the thread was in meanwhile.

    `parent_rows` has the row of each range's parent. `deeds` are the ranges of causes that no one
    range is named after, `waits` what the operating system did with the thread, within the time in
    which the device waits for it. The second answer are the ranges of all causes that are the
    program's.
    """
    is_api = ranges.select(IN_API).to_series()
    is_cost = ranges.select(_IS_COST).to_series()
    waiting = may_wait(names) & is_api
    calls = lend_waits(run, ranges)
    held = _is_open_at_start(found, calls, waiting)
    syncs = calls.filter(waiting & synchronizes(names) & ~held)
    takes_long = pl.col("end_ns") - pl.col("start_ns") > IDLE_WAIT_NS
    syncs = syncs.filter(_begin_in_work(syncs, ops) | syncs.select(takes_long).to_series())
    sleeping = list_callback_waits(run).get_column("host_op_id")
    sleeps = ranges.filter(pl.col("host_op_id").is_in(sleeping.implode()))
    kinds = {
        "compiling": lend_to_helpers(run, ranges.filter(is_compiler(names))),
        "data_loading": pl.concat(
            [ranges.filter(names.match(LOADING) & ~is_api), list_loader_starts(ranges, names)]
        ).sort("start_ns"),
        **deeds,
        "allocation": ranges.filter(allocates(names) & (is_api | is_cost)),
        # What is called when nothing is left to wait for costs what the call costs, and no more:
        # neither its name nor a copy's says that it waited. Where it takes long, it did.
        "host_sync": pl.concat([calls.filter(held), syncs, sleeps]).sort("host_op_id"),
    }
    overhead = ranges.filter(~is_own_cost(names) & is_cost)
    until_launch = ("start_ns", "host_end_ns")
    measured, inside = {}, {}
    if overhead.height:
        measured["profiler_overhead"] = measure_cover_between(
            found, *until_launch, overhead, ["rank"]
        )
        inside["profiler_overhead"] = find_longest(found, overhead, ["rank"])
    spans = [*_THREAD, "host_op_id", "start_ns", "end_ns"]
    known = program_ranges = ranges.select(spans).clear()
    covered = pl.repeat(0, found.height, dtype=pl.Int64, eager=True)
    for cause in HOST_CAUSES[1:-1]:
        of_cause = (
            (waits if cause in SYSTEM_CAUSES else kinds).get(cause, known.clear()).select(spans)
        )
        if cause in kinds:
            program_ranges = pl.concat([program_ranges, of_cause])
        if not of_cause.height:
            # Most causes are of few recordings: what is 0 of all gaps is added at the end, as one
            # value. These two are asked for before.
            if cause in ("code_loading", "host_sync"):
                measured[cause] = covered * 0
            continue
        # Ranges of several kinds lie inside each other: only what a kind adds is its own.
        known = of_cause if known.is_empty() else pl.concat([known, of_cause])
        covered_now = measure_cover_between(found, *until_launch, known, _THREAD)
        measured[cause], covered = covered_now - covered, covered_now
        inside[cause] = (
            _find_open_in(found, of_cause, ranges)
            if cause in SYSTEM_CAUSES
            else name_compiling(found, ranges, names, parent_rows, of_cause)
            if cause == "compiling"
            else find_longest(found, of_cause, _THREAD)
        )
    found = found.with_columns(pl.Series(f"{c}_ns", v) for c, v in measured.items())
    # The profiler's own time may overlap with the thread's: what is left is shared out in order.
    left = pl.col("host_end_ns") - pl.col("start_ns")
    for cause in measured:
        name = f"{cause}_ns"
        found = found.with_columns(pl.min_horizontal(name, left).alias(name))
        left = left - pl.col(name)
    found = found.with_columns(host_late_ns=left)
    # The thread works on at its own pace, whatever the system did with it meanwhile.
    found = _give_pace_away(found, [cause for cause in measured if cause not in SYSTEM_CAUSES])
    first = found.filter("loaded", pl.col("slow_ns") > 0).select(
        *_THREAD, start_ns="host_end_ns", end_ns=pl.col("host_end_ns") + pl.col("slow_ns")
    )
    found = _explain_slow_launches(found, waits)
    found = found.with_columns(
        pl.col("code_loading_ns") + pl.when("loaded").then("slow_ns").otherwise(0),
        slow_launch_ns=pl.when("loaded").then(0).otherwise("slow_ns"),
    )
    free = _find_end_before(found, program_ranges)
    found = found.with_columns(
        *(pl.lit(0, pl.Int64).alias(f"{c}_ns") for c in HOST_CAUSES[:-1] if c not in measured),
        *(pl.lit(None, pl.Int64).alias(f"{c}_op") for c in HOST_CAUSES[:-1] if c not in inside),
        *(op.alias(f"{cause}_op") for cause, op in inside.items()),
        host_late_op=find_covering(
            found.with_columns(free_ns=free), ranges, names, ("free_ns", "host_end_ns"), parent_rows
        ),
        queued_op=find_covering(
            found.with_columns(since_ns=pl.col("end_ns") - pl.col("queued_ns")),
            ranges,
            names,
            ("since_ns", "end_ns"),
            parent_rows,
        ),
    )
    # What no range says, samples and names of kernels may.
    found = found.with_columns(runtime=infer_runtimes(run, found))
    inferred = pl.col("runtime").is_not_null()
    found = found.with_columns(
        compiling_ns=pl.col("compiling_ns") + pl.when(inferred).then("host_late_ns").otherwise(0),
        compiling_op=pl.when(inferred & (pl.col("compiling_ns") < pl.col("host_late_ns")))
        .then(None)
        .otherwise("compiling_op"),
        host_late_ns=pl.when(inferred).then(0).otherwise("host_late_ns"),
    )
    return found, pl.concat([program_ranges.drop("host_op_id"), first])


def _explain_slow_launches(found: pl.DataFrame, waits: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Gaps where what the system did with the thread in a slow launch call is not the call's.

    What it sleeps for in a call that loads code is the call's.
    """
    known, covered = [], pl.repeat(0, found.height, dtype=pl.Int64, eager=True)
    slow = found.with_columns(slow_end_ns=pl.col("host_end_ns") + pl.col("slow_ns"))
    for cause in SYSTEM_CAUSES:
        if cause not in waits or waits[cause].is_empty():
            continue
        known.append(waits[cause])
        now = measure_cover_between(slow, "host_end_ns", "slow_end_ns", pl.concat(known), _THREAD)
        taken = pl.lit(now - covered)
        if cause in _SLEEPS:
            taken = pl.when("loaded").then(0).otherwise(taken)
        found = found.with_columns(
            (pl.col(f"{cause}_ns") + taken).alias(f"{cause}_ns"),
            slow_ns=pl.col("slow_ns") - taken,
        )
        covered = now
    return found


def _begin_in_work(ranges: pl.DataFrame, ops: pl.DataFrame) -> pl.Series:
    """Which ranges begin while an operation runs on a device of their rank."""
    reach = pl.col("end_ns").cum_max()
    if not is_one_group(ops, ["rank"]):
        reach = reach.over("rank")
    running = sort_rows(ops.select("rank", "start_ns", "end_ns"), ["start_ns"])
    running = running.with_columns(until=reach)
    last = find_latest(ranges, "start_ns", running, "start_ns", ["rank"])
    until = running.get_column("until").gather(last)
    return (ranges.get_column("start_ns") < until).fill_null(value=False)


def _is_open_at_start(found: pl.DataFrame, ranges: pl.DataFrame, waiting: pl.Series) -> pl.Series:
    """Which calls that may wait were under way on a launching thread when its device ran dry."""
    calls = ranges.filter(waiting).with_columns(parent_id=pl.lit(None, pl.Int64))
    open_ = find_open_range(calls, found, "start_ns").drop_nulls()
    return waiting & ranges.get_column("host_op_id").is_in(open_.implode())


def _give_pace_away(found: pl.DataFrame, causes: list[str]) -> pl.DataFrame:
    """Gaps in which getting the next launch ready goes to what held the thread before.

    A wait held it however short its end is; of other things only what took as long as the rest.
    """
    columns = [f"{c}_ns" for c in causes]
    largest = pl.max_horizontal(columns)
    held = (pl.col("host_sync_ns") == largest) | (largest >= pl.col("host_late_ns"))
    found = found.with_columns(
        given=pl.when((pl.col("host_late_ns") <= PACE_NS) & (largest > 0) & held)
        .then("host_late_ns")
        .otherwise(0),
        to=pl.coalesce(
            pl.when(pl.col(name) == largest).then(pl.lit(i)) for i, name in enumerate(columns)
        ),
    )
    return found.with_columns(
        *(
            pl.col(name) + pl.when(pl.col("to") == i).then("given").otherwise(0)
            for i, name in enumerate(columns)
        ),
        host_late_ns=pl.col("host_late_ns") - pl.col("given"),
    ).drop("given", "to")


def _find_open_in(found: pl.DataFrame, waits: pl.DataFrame, ranges: pl.DataFrame) -> pl.Series:
    """The innermost range that was open when the last of these waits of each gap began."""
    if waits.is_empty():
        return pl.repeat(None, found.height, dtype=pl.Int64, eager=True)
    last = find_latest(found, "waited_ns", waits, "start_ns", _THREAD)
    at = waits.get_column("start_ns").gather(last)
    began = found.select(*_THREAD, began=pl.max_horizontal("start_ns", at))
    known = at.is_not_null().arg_true()
    return pl.repeat(None, found.height, dtype=pl.Int64, eager=True).scatter(
        known, find_open_range(ranges, began[known], "began")
    )


def _find_end_before(found: pl.DataFrame, ranges: pl.DataFrame) -> pl.Series:
    """When the thread came back from the last of the ranges before its launch, or the gap began."""
    last = find_latest(found, "host_end_ns", ranges, "end_ns", _THREAD)
    end = ranges.get_column("end_ns").gather(last)
    return found.select(
        pl.max_horizontal("start_ns", end).fill_null(pl.col("start_ns"))
    ).to_series()
