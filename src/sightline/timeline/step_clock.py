"""How long a step takes: by the work that later steps wait for, not by the host's range alone.

Where a device is the limit the host runs ahead, and its ranges last as long as launching takes. So
with E the end of the last operation that a step launched, on a stream that all steps use, and H the
end of its host part, a step ends at the later of the two (C), and lasts from the C of the step
before to its own. How far the host runs ahead changes nothing, and the steps sum to the time
between the first and the last C.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.model.run import Run
from sightline.timeline.iterations import (
    ENGINE,
    find_period,
    list_iterations,
    list_marked_steps,
)

SCHEMA = {
    "rank": pl.Int64,
    "step": pl.String,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "host_start_ns": pl.Int64,
    "host_end_ns": pl.Int64,
    "source": pl.String,
    "confidence": pl.String,
}
# A pattern of several steps in turn (accumulation, engines that alternate) is believed from two
# whole periods on: the steps of a loop that was recorded for a while are few.
_LEAST_PERIODS = 2
# A step of the begin that takes a quarter more than the median one is start-up (ours: steps of
# programs that do the same in each vary by less).
_WARM, _LEAST_TO_WARM = 1.25, 4
# Frameworks compile and tune in their first few steps (torch.compile's and cuDNN's first ones, CUDA
# graphs' three before capture); where steps get shorter for longer, their work does (ours).
_MOST_WARMING = 5
FOUND_ON_DEVICE = "kernel order"
_LAUNCHED = ("rank", "device_id", "stream_id", "end_ns", "called_ns")


def list_steps(run: Run) -> pl.DataFrame:
    """One row per rank and iteration, in order: from `start_ns` to `end_ns` by the step's clock.

    All times are ns. `host_start_ns` and `host_end_ns` are what was marked or found (`iterations`).
    The first step of a rank begins where its host part does, or where the work that was launched
    before it ends: what of it was not recorded is unknown. Rows whose end does not lie after their
    start (two marks that end with one operation) are part of the step before.
    """
    return run.once(_list_steps)


def list_steady_steps(run: Run) -> pl.DataFrame:
    """The rows of list_steps without each rank's first and what is start-up, over whole periods.

    A rank with two steps keeps the second, with one step that one. Where steps differ in turn, as
    with gradient accumulation, as many are left out at the begin as exceed whole periods.
    """
    return run.once(_list_steady_steps)


def list_marked_by_clock(run: Run) -> pl.DataFrame:
    """All marked steps (iterations.list_marked_steps), from `start_ns` to `end_ns` by their clock.

    Also those of which no operator and no device operation was recorded: their clock is the host's.
    """
    return run.once(_list_marked_by_clock)


def _list_marked_by_clock(run: Run) -> pl.DataFrame:
    marks, ops = list_marked_steps(run), run.once(_list_launched)
    return pl.concat(
        [
            clock_steps(mine, ops.filter(pl.col("rank") == rank))
            for (rank, _), mine in marks.partition_by(
                ["rank", "pid"], as_dict=True, maintain_order=True
            ).items()
        ]
        or [clock_steps(marks, ops)]
    )


def _list_steps(run: Run) -> pl.DataFrame:
    found = list_iterations(run)
    if found.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    ops = run.once(_list_launched)
    parts = []
    for (rank,), mine in found.partition_by("rank", as_dict=True, maintain_order=True).items():
        if mine.item(0, "source") == FOUND_ON_DEVICE:  # it is on the device's clock
            parts.append(mine.with_columns(host_start_ns="start_ns", host_end_ns="end_ns"))
        else:
            clocked = clock_steps(mine, ops.filter(pl.col("rank") == rank))
            parts.append(_leave_out_waiting(clocked))
    return pl.concat(parts).select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())


def _leave_out_waiting(steps: pl.DataFrame) -> pl.DataFrame:
    """Steps of an inference engine without the time before their range, when it may wait."""
    if steps.item(0, "source") != ENGINE:
        return steps
    return steps.with_columns(start_ns=pl.max_horizontal("start_ns", "host_start_ns"))


def _list_launched(run: Run) -> pl.DataFrame:
    """Device operations with the moment at which the host launched them, ns; null if unknown."""
    if not run.rows("host_ops"):
        return pl.DataFrame(schema=dict.fromkeys(_LAUNCHED, pl.Int64))
    ops = run.table("device_ops", ["rank", "device_id", "stream_id", "end_ns", "launch_id"])
    host = run.table("host_ops", ["host_op_id", "start_ns"])
    calls = find_rows(host.get_column("host_op_id"), ops.get_column("launch_id"))
    return ops.drop("launch_id").with_columns(called_ns=host.get_column("start_ns").gather(calls))


def clock_steps(steps: pl.DataFrame, launched: pl.DataFrame) -> pl.DataFrame:
    """Steps of one loop, in order, from `start_ns` to `end_ns` by the step's clock, ns.

    What those columns held is in `host_start_ns` and `host_end_ns`. `launched` are the device
    operations of the loop: device_id, stream_id, end_ns and called_ns, when the host launched them.
    """
    steps = steps.with_columns(host_start_ns="start_ns", host_end_ns="end_ns")
    starts = steps.get_column("start_ns")
    launched = launched.drop_nulls("called_ns")
    nth = starts.search_sorted(launched.get_column("called_ns"), side="right").cast(pl.Int64) - 1
    ends = (
        _select_awaited(launched.with_columns(nth=nth), steps.height)
        .group_by("nth")
        .agg(pl.col("end_ns").max())
    )
    before = ends.filter(pl.col("nth") < 0).get_column("end_ns").max()
    ends = ends.filter(pl.col("nth") >= 0)
    device = pl.repeat(None, steps.height, dtype=pl.Int64, eager=True).scatter(
        ends.get_column("nth"), ends.get_column("end_ns")
    )
    clock = steps.select(pl.max_horizontal("host_end_ns", pl.lit(device)).cum_max()).to_series()
    begin = pl.max_horizontal("host_start_ns", pl.lit(before, pl.Int64))
    return steps.with_columns(
        start_ns=pl.lit(clock).shift(1).fill_null(pl.min_horizontal(begin, pl.lit(clock))),
        end_ns=clock,
    ).filter(pl.col("end_ns") > pl.col("start_ns"))


def _select_awaited(launched: pl.DataFrame, steps: int) -> pl.DataFrame:
    """Operations on the streams that all steps but the first use; of all, where none is used so.

    A checkpoint's copy on a stream of its own holds no later step.
    """
    lane = ["device_id", "stream_id"]
    used = (
        launched.filter(pl.col("nth") >= min(1, steps - 1))
        .group_by(lane)
        .agg(steps=pl.col("nth").n_unique())
        .filter(pl.col("steps") >= steps - 1)
    )
    awaited = launched.join(used, on=lane, how="semi", nulls_equal=True)
    return awaited if awaited.height else launched


def _list_steady_steps(run: Run) -> pl.DataFrame:
    steps = list_steps(run)
    if steps.is_empty():
        return steps
    ops = run.once(_list_launched).drop_nulls("called_ns")
    parts = []
    for (rank,), mine in steps.partition_by("rank", as_dict=True, maintain_order=True).items():
        settled = _leave_out_warming(mine.slice(1) if mine.height > 1 else mine)
        called = ops.filter(pl.col("rank") == rank).get_column("called_ns")
        parts.append(settled.slice(settled.height % _count_in_turn(settled, called)))
    return pl.concat(parts)


def _leave_out_warming(steps: pl.DataFrame) -> pl.DataFrame:
    """The steps from the first one on that takes as long as most, of four or more.

    The first ones allocate, tune and load: they are start-up. At most half are left out, and none
    where many are longer: their work shrinks.
    """
    if steps.height < _LEAST_TO_WARM:
        return steps
    took = steps.get_column("end_ns") - steps.get_column("start_ns")
    usual = took <= _WARM * took.median()  # type: ignore[operator]
    first = int(usual.arg_max() or 0)
    return steps if first > _MOST_WARMING else steps.slice(min(first, steps.height // 2))


def _count_in_turn(steps: pl.DataFrame, called: pl.Series) -> int:
    """After how many steps the number of launched operations comes back; 1 where it does not."""
    starts = steps.get_column("host_start_ns")
    nth = starts.search_sorted(called, side="right").cast(pl.Int64) - 1
    counts = nth.filter(nth >= 0).value_counts(name="n").sort(nth.name)
    found = find_period(counts.get_column("n").cast(pl.UInt64))
    if found is None or found[0] * _LEAST_PERIODS > steps.height:
        return 1
    return found[0]
