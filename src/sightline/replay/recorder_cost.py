"""What recording cost the host, moment by moment, and the run's graph without it.

A profiler acts at events: where an operator, a Python frame or a call of the runtime begins and
ends, it reads clocks and writes records, which also take the program's data from the caches. What
that costs differs between two recordings of one program by more than between two programs, so it is
taken from the recording itself. The time of a thread is cut into stretches between its events:

- By so much as the usual launch call is longer than the hot ones of its name, each stretch is
  longer than it was without the recorder, by 3 µs at most: what happens between events is the
  program's.
- A short stretch that begins or ends with a Python frame is the recorder's: calling a function
  takes Python some 50 ns, and 0.3 to 2 µs while frames are recorded.

Nothing in it was fitted but the limits 3 and 20 µs, and they matter little. On 16 sides of programs
that were measured with and without PyTorch's profiler, host-bound while it recorded, the estimate
misses the unrecorded step by 14 % (RMS), the recorded one by 39 % (docs/accuracy.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import Texts, keep_matching, mark_rows
from sightline.core.model.run import Run
from sightline.timeline.api_calls import CUPTI_LAUNCH_NS, launches_kernels

MOST_OF_STRETCH_NS, SHORT_FRAME_NS = 3_000, 20_000
_HOT = 0.1  # the quantile of a recording's launch calls that count as hot
# CUPTI's callbacks alone make a launch take 4 µs: hot ones took 4.0 to 7.4 µs in 29 recordings, and
# take 2 to 3 µs while nobody records. Faster ones show no recorder, and their spread is their own.
_LEAST_HOT_NS = 3_500
# A launch that takes three times the usual one waits, for room in a queue or for its code.
_WAITS = 3
# Fewer say nothing about what is usual (ours: a step of a small model launches that many).
_LEAST_CALLS = 50
# A recorder makes the host's work at most five times as long: of 53 sides the most was 2.4.
_LEAST_LEFT = 0.2
_NOTHING = pl.Series([0], dtype=pl.Int64)
LAYERS = ("op", "python", "runtime", "driver")
THREAD = ["rank", "pid", "tid"]


@dataclass(frozen=True)
class RecorderCost:
    """What the recorder had taken of one rank's host work up to each of some moments, ns.

    `at` are moments in order, `taken` what it had taken by then; `launch_ns` comes on top for each
    call that launches. Of calls that wait nothing is taken, but where the host itself was slower
    (`of_waits`): then of what such a call takes by itself.
    """

    at: pl.Series
    taken: pl.Series
    launch_ns: int = 0
    of_waits: bool = False

    @property
    def is_any(self) -> bool:
        """Whether the recorder took anything at all."""
        return bool(self.launch_ns) or bool(self.taken.max())


def estimate_costs(run: Run, nodes: pl.DataFrame) -> dict[int, RecorderCost]:
    """What recording cost the launching threads (of `nodes`) of each rank whose tool is known.

    Of PyTorch's profiler and of our own recorder of CUPTI; what others cost was not measured.
    """
    tools = run.table("recordings", ["rank", "format"]).group_by("rank").agg("format").rows()
    costs = {}
    for rank, formats in tools:
        if "kineto" in formats:
            cost = _add_up_stretches(run, nodes, rank)
            if cost is not None:
                costs[rank] = cost
        elif "cupti" in formats:
            costs[rank] = RecorderCost(_NOTHING, _NOTHING, CUPTI_LAUNCH_NS)
    return costs


def _add_up_stretches(run: Run, nodes: pl.DataFrame, rank: int) -> RecorderCost | None:
    """What the recorder took of the stretches between the events of a rank's launching threads."""
    host = run.table("host_ops", [*THREAD, "layer", "name", "start_ns", "end_ns", "depth"]).filter(
        pl.col("rank") == rank, pl.col("layer").is_in(LAYERS)
    )
    slowed = _measure_slowing(host.filter(pl.col("layer").is_in(["runtime", "driver"])))
    if slowed is None:
        return None
    launching = nodes.filter(pl.col("rank") == rank)
    frames = keep_matching(
        host.filter(pl.col("layer") == "python"), _list_threads(launching), THREAD
    )
    if not slowed and frames.is_empty():
        return RecorderCost(_NOTHING, _NOTHING)
    events = list_events(host, launching, pl.col("layer").alias("of"))
    length = pl.col("at").shift(-1) - pl.col("at")
    is_frame = pl.col("of") == "python"
    taken = (slowed * length).clip(upper_bound=MOST_OF_STRETCH_NS).round().cast(pl.Int64)
    framed = pl.when((is_frame | is_frame.shift(-1)) & (length < SHORT_FRAME_NS)).then(length)
    return add_up_taken(events.select("at", taken=(taken + framed.otherwise(0)).shift(1)))


def list_events(host: pl.DataFrame, launching: pl.DataFrame, *of: pl.Expr | str) -> pl.DataFrame:
    """The begins and ends of what the threads of some nodes did, in order of time.

    `host` are rows of host_ops; each event has its moment `at`, whether it `begins`, and `of` of
    its row.
    """
    mine = keep_matching(host, _list_threads(launching), THREAD)
    # Of events at one moment the outer one begins first and ends last.
    ends = [
        mine.select(*of, at="start_ns", turn="depth", begins=pl.lit(value=True)),
        mine.select(*of, at="end_ns", turn=-pl.col("depth"), begins=pl.lit(value=False)),
    ]
    return pl.concat(ends).sort("at", "turn", maintain_order=True)


def _list_threads(nodes: pl.DataFrame) -> pl.DataFrame:
    return nodes.select(THREAD).drop_nulls("tid").unique()


def add_up_taken(taken: pl.DataFrame) -> RecorderCost:
    """What was taken by each moment: `taken` ns by the moment `at`, in order of time."""
    summed = taken.select("at", pl.col("taken").fill_null(0).cum_sum())
    # In order, so the last of a moment is the one before another: hashing them takes longer.
    known = summed.filter(pl.col("at").ne_missing(pl.col("at").shift(-1)))
    return RecorderCost(known.get_column("at"), known.get_column("taken"))


def _measure_slowing(calls: pl.DataFrame) -> float | None:
    """By which share of its length the usual launch is longer than a hot one; None if unknown."""
    ns = pl.col("ns")
    count, hot, usual = (
        calls.select("name", ns=pl.col("end_ns") - pl.col("start_ns"))
        .filter(launches_kernels(Texts(calls.get_column("name"))))
        .filter(ns <= _WAITS * ns.median().over("name"))
        .group_by("name")
        .agg(calls=pl.len(), hot=ns.quantile(_HOT), usual=ns.mean())
        .filter(pl.col("calls") >= _LEAST_CALLS)
        .select("calls", pl.col("hot", "usual") * pl.col("calls"))
        .sum()
        .row(0)
    )
    if not (hot and usual):
        return None
    return 1 - hot / usual if hot >= count * _LEAST_HOT_NS else 0.0


def spread_costs(nodes: pl.DataFrame, costs: dict[int, RecorderCost]) -> pl.DataFrame:
    """What the recorder took before each node of a graph, and of it: `of_lag` and `of_call`.

    Whole ns, a row for each row of `graph.list_nodes`.
    """
    start, lag = nodes.get_column("start_ns"), nodes.get_column("prev_lag_ns").fill_null(0).clip(0)
    end, returns = nodes.get_column("end_ns"), nodes.get_column("kind") == "finish"
    launches = mark_rows(nodes.get_column("launch"), nodes.height)
    # A wait's return has its call before it: how long both take, and what of that is its own.
    called = start.gather(nodes.get_column("prev")).fill_null(start)
    own = lag / (end - called).clip(1)
    of_lag, of_call = (pl.repeat(0, nodes.height, dtype=pl.Int64, eager=True) for _ in range(2))
    for rank, cost in costs.items():
        mine = (nodes.get_column("rank") == rank).cast(pl.Int64)
        at_start = _look_up(cost, start)
        before = at_start - _look_up(cost, start - lag)
        if returns.any():
            in_wait = (_look_up(cost, end) - _look_up(cost, called)) * own * int(cost.of_waits)
            before = in_wait.round().cast(pl.Int64).zip_with(returns, before)
        of_lag += mine * before
        in_call = _look_up(cost, end) - at_start
        of_call += mine * (in_call + launches.cast(pl.Int64) * cost.launch_ns)
    return pl.DataFrame({"of_lag": of_lag, "of_call": of_call})


def contract_nodes(nodes: pl.DataFrame, taken: pl.DataFrame, times: float = 1.0) -> pl.DataFrame:
    """The nodes of a dependency graph without what the recorder took (`spread_costs`).

    `times` scales it. A wait is not shortened: it ends when the device is done. What its call takes
    by itself is a return's lag.
    """
    start, lag = nodes.get_column("start_ns"), nodes.get_column("prev_lag_ns").fill_null(0).clip(0)
    length = nodes.get_column("end_ns") - start
    of_lag, of_call = (pl.lit(column) for column in taken.get_columns())
    is_call = pl.col("kind") == "call"
    is_host = is_call | (pl.col("kind") == "finish")
    thought = (pl.lit(lag) - of_lag * times).clip(pl.lit(lag) * _LEAST_LEFT)
    called = (pl.lit(length) - of_call * times).clip(pl.lit(length) * _LEAST_LEFT)
    return nodes.with_columns(
        prev_lag_ns=pl.when(is_host & (pl.col("prev_lag_ns") > 0))
        .then(thought.round().cast(pl.Int64))
        .otherwise("prev_lag_ns"),
        end_ns=pl.when(is_call)
        .then(pl.col("start_ns") + called.round().cast(pl.Int64))
        .otherwise("end_ns"),
    )


def _look_up(cost: RecorderCost, moments: pl.Series) -> pl.Series:
    """What the recorder had taken by each moment; calls begin and end at moments that are known."""
    place = find_latest(moments.to_frame("at"), "at", cost.at.to_frame("at"), "at", [])
    return cost.taken.gather(place).fill_null(0)
