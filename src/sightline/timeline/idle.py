"""What each idle gap's time went to: the gap cut at its launch call, and the host's part by deeds.

What the causes mean is told where people read it: in the analysis `idle_parts`.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import find_gaps, is_one_group, measure_cover_between
from sightline.core.algebra.latest import find_latest, find_next
from sightline.core.algebra.lookup import (
    Texts,
    find_rows,
    match_names,
    number_groups,
    take_rows,
)
from sightline.core.algebra.order import sort_rows
from sightline.core.algebra.trees import find_open_range
from sightline.core.model.run import Run
from sightline.timeline.api_calls import (
    allocates,
    is_own_cost,
    loads_code,
    may_wait,
    orders_streams,
    synchronizes,
)
from sightline.timeline.coverage import list_lost_launches
from sightline.timeline.engine_gaps import list_idle_spans
from sightline.timeline.host_ranges import (
    IN_API,
    LOADING,
    PACE_NS,
    is_compiler,
    list_capture_ranges,
    list_range_parents,
    list_ranges,
    list_saving_ranges,
)
from sightline.timeline.idle_compilers import lend_to_helpers, name_compiling
from sightline.timeline.idle_names import find_covering, find_longest
from sightline.timeline.idle_runtimes import infer_runtimes
from sightline.timeline.loader_starts import list_loader_starts
from sightline.timeline.system_waits import cut_to_spans, list_waits_in_spans

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
# Call begin to kernel start on an idle device, where the recording's own launches do not show: the
# upper end of what is usual. Measured with `sightline stats kernel_launches` at queue depth 0 on
# TraceLens's three H100 recordings: medians 6.5 to 7.5 µs.
FALLBACK_LATENCY_NS = 10_000
# A synchronization with a device that has nothing to do returns within this time: of 155 such calls
# in 16 real recordings (of PyTorch's profiler and Nsight Systems) the median took 3 µs, and the
# longest 32 µs. What takes longer waited for something that is not recorded.
IDLE_WAIT_NS = 40_000
# Gaps up to so many usual intervals between launches are the pace of launching; longer ones are
# something else that the host did once (ours: a start-up of seconds must not count as pace).
PACE_INTERVALS = 10
# A wait for an event of what had ended takes a few µs (replay/graph.py: NO_LONGER_NS).
_MOST_EVENT_WAIT_NS = 50_000

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
# A call that asks for pages of unified memory; the moves that it brings name no call.
_PREFETCH = r"^(?:cuda|cu|hip)MemPrefetch"
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


def measure_launch_latency(ops: pl.DataFrame, host: pl.DataFrame) -> int:
    """The recording's own time from a launch call's begin to the start on an idle device, ns.

    The 10th percentile over all launches, since a queue only ever adds to it; where every launch
    queues even that is not a latency, so it is never taken for more than the usual upper end.
    """
    called = find_rows(host.get_column("host_op_id"), ops.get_column("launch_id"))
    delays = ops.get_column("start_ns") - host.get_column("start_ns").gather(called)
    delays = delays.filter((ops.get_column("kind") == "kernel") & (delays > 0))
    if delays.len() < 10:
        return FALLBACK_LATENCY_NS
    tenth = int(delays.quantile(0.1, interpolation="lower") or FALLBACK_LATENCY_NS)
    return min(tenth, FALLBACK_LATENCY_NS)


def _make_idle_gaps(run: Run) -> tuple[pl.DataFrame, pl.DataFrame]:
    host = run.table("host_ops", ["host_op_id", *_THREAD, "name", "start_ns", "end_ns"])
    ops = _find_prefetches(run.table("device_ops", _OP), host)
    found = _find_neighbours(find_gaps(ops, run.ask("windows"), _BY), ops)
    called = find_rows(host.get_column("host_op_id"), found.get_column("launch_id"))
    calls = host.select("pid", "tid", launch="name", call_ns="start_ns", call_end_ns="end_ns")
    found = found.hstack(take_rows(calls, called))
    found = _find_lost_launches(run, found, host)
    found = _cut_at_launch(found, measure_launch_latency(ops, host))
    ranges, names = list_ranges(run)
    loading = ranges.filter(loads_code(names) & (ranges.select(IN_API | _IS_COST).to_series()))
    found = _find_end_of_wait(found, loading)
    spans = _list_launch_spans(found)
    waits = {
        cause: cut_to_spans(each, spans, _THREAD).with_columns(host_op_id=pl.lit(None, pl.Int64))
        for cause, each in list_waits_in_spans(run, spans).items()
    }
    found, deeds = _measure_host_causes(
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
    told = _is_told_to_wait(found, ops, host, orders)
    found = found.with_columns(
        queued=pl.when(pl.col("launch_id").is_null())
        .then(pl.lit("unknown"))
        .when("in_graph")
        .then(pl.lit("in_graph"))
        .when(pl.col("lost_ns").is_not_null() | _waits_for_unrecorded(ops, told))
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


def _find_prefetches(ops: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """The operations, where the first page that a prefetch brought has that call for its launch."""
    asked = pl.col("migration_cause").eq_missing("user prefetch") & pl.col("launch_id").is_null()
    rows = ops.select(asked).to_series().arg_true()
    ops = ops.drop("migration_cause")
    if rows.is_empty():
        return ops
    calls = host.filter(match_names(host, _PREFETCH))
    moves = take_rows(ops, rows).with_columns(row=rows)
    last = find_latest(moves, "start_ns", calls, "start_ns", ["rank"])
    first = (
        moves.with_columns(call=calls.get_column("host_op_id").gather(last))
        .drop_nulls("call")
        .sort("start_ns", "row")
        .unique("call", keep="first", maintain_order=True)
    )
    launch = ops.get_column("launch_id").scatter(first.get_column("row"), first.get_column("call"))
    return ops.with_columns(launch_id=launch)


def _find_neighbours(found: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Gaps with the operation that ends each one, and the one that ended last before it."""
    after = find_next(found, "end_ns", ops, "start_ns", _BY, ties=["device_op_id"])
    before = find_latest(found, "start_ns", ops, "end_ns", _BY, ties=["device_op_id"])
    in_order = sort_rows(ops, ["start_ns", "device_op_id"])
    names, _ = number_groups(in_order, [*_BY, "name"])
    ids = in_order.get_column("device_op_id").filter(names.is_first_distinct())
    is_first = ops.get_column("device_op_id").is_in(ids.implode())
    ending = ops.select("launch_id", after_id="device_op_id", after="name").with_columns(
        is_first=is_first & (ops.get_column("kind") == "kernel")
    )
    return found.hstack(take_rows(ending, after)).hstack(
        take_rows(ops.select(before_id="device_op_id", launch_before="launch_id"), before)
    )


def _find_lost_launches(run: Run, found: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """Gaps with `lost_ns`: when work was launched in between that is not in the recording.

    It was launched behind the operation before the gap, and ahead of that behind it: the device may
    have run it all the while.
    """
    lost = list_lost_launches(run)
    if lost.is_empty():
        return found.with_columns(lost_ns=pl.lit(None, pl.Int64))
    earlier = find_rows(host.get_column("host_op_id"), found.get_column("launch_before"))
    called = found.with_columns(called_before_ns=host.get_column("start_ns").gather(earlier))
    row = find_next(called, "called_before_ns", lost, "start_ns", ["rank"])
    found = found.with_columns(lost_ns=lost.get_column("start_ns").gather(row))
    between = pl.col("lost_ns") < pl.col("call_ns")
    return found.with_columns(
        lost_ns=pl.when(between).then(pl.max_horizontal("lost_ns", "start_ns"))
    ).with_columns(lost_ns=pl.when(pl.col("lost_ns") < pl.col("end_ns")).then("lost_ns"))


def _waits_for_unrecorded(ops: pl.DataFrame, told: pl.Series) -> pl.Expr:
    """Whether a queued operation waits long for an event, and nothing recorded can be what of.

    Nothing runs on its device in a gap; where the rank has another one, the event may be of that.
    """
    devices = ops.select(_BY).unique().group_by("rank").len()
    alone = devices.filter(pl.col("len") == 1).get_column("rank")
    return (
        pl.lit(told)
        & pl.col("rank").is_in(alone.implode())
        & (pl.col("queued_ns") >= _MOST_EVENT_WAIT_NS)
    )


def _cut_at_launch(found: pl.DataFrame, latency_ns: int) -> pl.DataFrame:
    """Gaps with `host_end_ns`, up to which the host is late, and what lies behind the call."""
    # Twice the usual latency: half of all launches take longer than the median.
    usual = 2 * latency_ns
    start, end, call, back = (pl.col(c) for c in ("start_ns", "end_ns", "call_ns", "call_end_ns"))
    launched = pl.max_horizontal(start, call)  # from here on the operation is launched
    returned = pl.max_horizontal(launched, pl.min_horizontal(back, end))
    found = found.with_columns(
        in_graph=(pl.col("launch_id") == pl.col("launch_before")).fill_null(value=False),
        is_late=(call >= start).fill_null(value=False),
        in_call_ns=returned - launched,
        after_ns=end - returned,
    )
    known = pl.col("launch_id").is_not_null() & ~pl.col("in_graph")
    slow = (known & (pl.col("in_call_ns") > usual)).fill_null(value=False)
    waits = (known & (pl.col("after_ns") > usual)).fill_null(value=False)
    late = known & pl.col("is_late")
    whole = end - start
    lost, lost_at = pl.col("lost_ns").is_not_null(), pl.col("lost_ns")
    found = found.with_columns(
        slow=slow,
        # What a launch usually takes belongs to what comes before it.
        slow_ns=pl.when(slow)
        .then(pl.when(waits).then("in_call_ns").otherwise(end - launched))
        .otherwise(0),
        queued_ns=pl.when(~known)
        .then(whole)
        .when(late | slow)
        .then(pl.when(waits).then("after_ns").otherwise(0))
        .otherwise(whole),
        on_its_way=~waits & (back > start),
        host_end_ns=pl.when(~late)
        .then(start)
        .when(slow)
        .then(launched)
        .when(waits)
        .then(returned)
        .otherwise(end),
    ).drop("in_call_ns", "after_ns")
    # From the launch of what was not recorded on nobody knows.
    since = pl.when("is_late").then(pl.min_horizontal("host_end_ns", lost_at)).otherwise(start)
    return found.with_columns(
        slow=pl.col("slow") & ~lost,
        slow_ns=pl.when(lost).then(0).otherwise("slow_ns"),
        host_end_ns=pl.when(lost).then(since).otherwise("host_end_ns"),
        queued_ns=pl.when(lost).then(end - since).otherwise("queued_ns"),
        on_its_way=pl.col("on_its_way") & ~lost,
    )


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


def _measure_host_causes(
    run: Run,
    found: pl.DataFrame,
    ranges: pl.DataFrame,
    names: Texts,
    up: pl.Series,
    ops: pl.DataFrame,
    deeds: dict[str, pl.DataFrame],
    waits: dict[str, pl.DataFrame],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Gaps with the ns that went to each host cause, and what the thread was in meanwhile.

    `up` is the row of each range's parent. `deeds` are the ranges of causes that no single range is
    named after, `waits` what the operating system did with the thread, within the time in which the
    device waits for it. The second answer are the ranges of all causes that are the program's.
    """
    is_api = ranges.select(IN_API).to_series()
    is_cost = ranges.select(_IS_COST).to_series()
    waiting = may_wait(names) & is_api
    held = _is_open_at_start(found, ranges, waiting)
    syncs = ranges.filter(waiting & synchronizes(names) & ~held)
    takes_long = pl.col("end_ns") - pl.col("start_ns") > IDLE_WAIT_NS
    syncs = syncs.filter(_begin_in_work(syncs, ops) | syncs.select(takes_long).to_series())
    kinds = {
        "compiling": lend_to_helpers(run, ranges.filter(is_compiler(names))),
        "data_loading": pl.concat(
            [ranges.filter(names.match(LOADING) & ~is_api), list_loader_starts(ranges, names)]
        ).sort("start_ns"),
        **deeds,
        "allocation": ranges.filter(allocates(names) & (is_api | is_cost)),
        # What is called when nothing is left to wait for costs what the call costs, and no more:
        # neither its name nor a copy's says that it waited. Where it takes long, it did.
        "host_sync": pl.concat([ranges.filter(held), syncs]).sort("host_op_id"),
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
    known = deeds_of_all = ranges.select(spans).clear()
    covered = pl.repeat(0, found.height, dtype=pl.Int64, eager=True)
    for cause in HOST_CAUSES[1:-1]:
        mine = (waits if cause in SYSTEM_CAUSES else kinds).get(cause, known.clear()).select(spans)
        if cause in kinds:
            deeds_of_all = pl.concat([deeds_of_all, mine])
        if not mine.height:
            # Most causes are of few recordings: what is 0 of all gaps is added at the end, as one
            # value. These two are asked for before.
            if cause in ("code_loading", "host_sync"):
                measured[cause] = covered * 0
            continue
        # Ranges of several kinds lie inside each other: only what a kind adds is its own.
        known = mine if known.is_empty() else pl.concat([known, mine])
        now = measure_cover_between(found, *until_launch, known, _THREAD)
        measured[cause], covered = now - covered, now
        inside[cause] = (
            _find_open_in(found, mine, ranges)
            if cause in SYSTEM_CAUSES
            else name_compiling(found, ranges, names, up, mine)
            if cause == "compiling"
            else find_longest(found, mine, _THREAD)
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
    free = _find_end_before(found, deeds_of_all)
    found = found.with_columns(
        *(pl.lit(0, pl.Int64).alias(f"{c}_ns") for c in HOST_CAUSES[:-1] if c not in measured),
        *(pl.lit(None, pl.Int64).alias(f"{c}_op") for c in HOST_CAUSES[:-1] if c not in inside),
        *(op.alias(f"{cause}_op") for cause, op in inside.items()),
        host_late_op=find_covering(
            found.with_columns(free_ns=free), ranges, names, ("free_ns", "host_end_ns"), up
        ),
        queued_op=find_covering(
            found.with_columns(since_ns=pl.col("end_ns") - pl.col("queued_ns")),
            ranges,
            names,
            ("since_ns", "end_ns"),
            up,
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
    return found, pl.concat([deeds_of_all.drop("host_op_id"), first])


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


def _is_told_to_wait(
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
