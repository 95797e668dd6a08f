"""What of a recording repeats, and what happens once: start-up, warm-up and the tail.

A program is slow in what it repeats. What comes before its first usual step (loading, compiling,
uploading, first calls) and after its last one happens once, however long it takes, and is not part
of a step's time. The repeating part is that of the steps' clock (`step_clock`): as marked, or as
found from the order of kernels. Where nothing repeats, and the host was not recorded, one long
pause before nearly all of the kernels is start-up, too.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import clip_intervals, measure_cover
from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.run import Run
from sightline.timeline.classes import COMPUTE, list_class
from sightline.timeline.profiler_gaps import find_profiler_gaps
from sightline.timeline.step_clock import FOUND_ON_DEVICE, list_steady_steps, list_steps

SEGMENTS = START_UP, REPEATING, TAIL = ("start-up", "repeating", "tail")

SCHEMA = {
    "rank": pl.Int64,
    "segment": pl.String,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "host_start_ns": pl.Int64,
    "host_end_ns": pl.Int64,
    "steps": pl.Int64,
}
# A part is believed to repeat from three usual steps on: see iterations.MIN_REPEATS.
_LEAST_STEPS = 3
# What happens once is a part of its own where it takes so much more of the window than as many
# usual steps would, %: from there on it is worth a word (diagnosis.build.NOTABLE_PCT).
_NOTABLE_PCT = 5.0
# Where the device computes for most of it, it is another phase of the program, and no start-up.
_MOST_COMPUTE_PCT = 50.0
# Steps that were found on one stream are those of the run where most of its kernels' time lies in
# them.
_LEAST_KERNELS_PCT = 50.0
# Where nothing but the devices was recorded, a pause is the set-up before the work: it takes most
# of the window, next to none of the kernels' time lies before it, and enough kernels behind it
# that it would have come back (ours).
_LEAST_PAUSE_PCT, _MOST_BEFORE_PCT, _LEAST_KERNELS_BEHIND = 50.0, 5.0, 10


def list_segments(run: Run) -> pl.DataFrame:
    """One row per rank and segment in order of time, ns: they sum to each rank's window.

    A segment is 'start-up', 'repeating' or 'tail'; `steps` counts the usual steps in it. Without
    rows where nothing repeats, or what happens once takes too little to matter.
    """
    return run.once(_list_segments)


def find_repeating_part(run: Run) -> pl.DataFrame:
    """From the first to the last usual step of each rank: rank, start_ns, end_ns, host's, steps.

    Empty where nothing repeats, or where what happens once takes too little to matter: the window
    is the repeating part then. Several ranks are cut all or none.
    """
    return run.once(_find_repeating_part)


def measure_whole(run: Run) -> int:
    """The longest rank's segments together, ns; 0 where there are none."""
    length = pl.col("end_ns") - pl.col("start_ns")
    return int(
        find_largest(list_segments(run).group_by("rank").agg(ns=length.sum()), "ns")
        if run.rows("device_ops")
        else 0
    )


def select_repeating(run: Run) -> Run:
    """The run, with answers about what repeats where much of it happens once; else as it is.

    A window that a person chose stays. Who asks again gets the same run, with its answers.
    """
    if run.window is not None or not run.rows("device_ops"):
        return run
    return run.once(_select_repeating)


def _select_repeating(run: Run) -> Run:
    return run if find_repeating_part(run).is_empty() else run.with_window(REPEATING)


def _find_repeating_part(run: Run) -> pl.DataFrame:
    found = _find_steps_part(run)
    if found.height or run.rows("host_ops") or _count_ranks(run) > 1 or find_profiler_gaps(run):
        return found
    return _find_behind_set_up(run)


def _count_ranks(run: Run) -> int:
    return run.columns("device_ops", ("rank",)).get_column("rank").n_unique()


def _find_steps_part(run: Run) -> pl.DataFrame:
    """The part of each rank in which steps repeat."""
    parts = run.once(_measure_parts)
    if (
        parts.height < _count_ranks(run)
        or parts.select((pl.col("steps") < _LEAST_STEPS).any()).item()
    ):
        return parts.clear()
    before, behind = (_happens_once(run, parts, side) for side in (START_UP, TAIL))
    if not (before or behind):
        return parts.clear()
    return parts.with_columns(
        start_ns="start_ns" if before else "since",
        end_ns="end_ns" if behind else "until",
        host_start_ns="host_start_ns" if before else pl.min_horizontal("host_start_ns", "since"),
        host_end_ns="host_end_ns" if behind else pl.max_horizontal("host_end_ns", "until"),
    )


def _find_behind_set_up(run: Run) -> pl.DataFrame:
    """What comes behind the one pause in which a host that was not recorded set everything up.

    No steps are known there.
    """
    columns = ["rank", "kind", "start_ns", "end_ns"]
    ops = run.table("device_ops", columns).sort("start_ns", "end_ns")
    since, until = pl.lit(ops.get_column("start_ns").min()), pl.lit(ops.get_column("end_ns").max())
    pause = pl.col("start_ns") - pl.col("end_ns").cum_max().shift(1)
    longest = ops.with_columns(pause=pause).filter(pl.col("pause") == pl.col("pause").max()).head(1)
    parts = longest.filter(100 * pl.col("pause") >= _LEAST_PAUSE_PCT * (until - since)).select(
        "rank",
        "start_ns",
        end_ns=until.cast(pl.Int64),
        host_start_ns="start_ns",
        host_end_ns=until.cast(pl.Int64),
        source=pl.lit(FOUND_ON_DEVICE),
        steps=pl.lit(0, pl.Int64),
        step_ns=pl.lit(0, pl.Int64),
        since=since.cast(pl.Int64),
        until=until.cast(pl.Int64),
    )
    kernels = ops.filter(~pl.col("kind").is_in(["memcpy", "memset"])).select(
        ns=pl.col("end_ns") - pl.col("start_ns"),
        is_before=pl.col("start_ns") < find_largest(longest, "start_ns"),
    )
    before = kernels.filter("is_before")
    is_set_up = kernels.height - before.height >= _LEAST_KERNELS_BEHIND and 100 * sum_column(
        before, "ns"
    ) <= _MOST_BEFORE_PCT * sum_column(kernels, "ns")
    return parts if is_set_up else parts.clear()


def _happens_once(run: Run, parts: pl.DataFrame, side: str) -> bool:
    """Whether what lies on one side of the steps is long on some rank, and no computing phase."""
    begin, end = ("since", "start_ns") if side == START_UP else ("end_ns", "until")
    windows = parts.select(
        "rank",
        window_start_ns=begin,
        window_end_ns=end,
        more_ns=pl.col(end) - pl.col(begin) - pl.col("step_ns") * pl.col(f"steps_{side}"),
        whole_ns=pl.col("until") - pl.col("since"),
    )
    long = (100 * pl.col("more_ns") >= _NOTABLE_PCT * pl.col("whole_ns")).any()
    if not windows.select(long).item():
        return False
    computing = list_class(run, COMPUTE, ("rank", "device_id", "start_ns", "end_ns"))
    devices = max(computing.select("rank", "device_id").n_unique() / parts.height, 1)
    covered = measure_cover(clip_intervals(computing, windows, ["rank"]), ["rank", "device_id"])
    lengths = windows.select(ns=pl.col("window_end_ns") - pl.col("window_start_ns"))
    length = sum_column(lengths, "ns")
    return 100 * sum_column(covered, "covered_ns") < _MOST_COMPUTE_PCT * devices * length


def _measure_parts(run: Run) -> pl.DataFrame:
    """Each rank's usual steps as one span, its window, and how many steps lie on either side.

    Without ranks whose steps hold too little of what the device did.
    """
    usual, every = list_steady_steps(run), list_steps(run)
    ops = run.table("device_ops", ["rank", "device_id", "kind", "start_ns", "end_ns"])
    windows = ops.group_by("rank").agg(since=pl.col("start_ns").min(), until=pl.col("end_ns").max())
    spans = usual.group_by("rank").agg(
        pl.col("start_ns").min(),
        pl.col("end_ns").max(),
        pl.col("host_start_ns").min(),
        pl.col("host_end_ns").max(),
        pl.col("source").first(),
        steps=pl.len().cast(pl.Int64),
        step_ns=(pl.col("end_ns") - pl.col("start_ns")).median().cast(pl.Int64),
    )
    begin, end = pl.col("begin"), pl.col("stop")
    beside = (
        every.select("rank", begin="start_ns", stop="end_ns")
        .join(spans.select("rank", "start_ns", "end_ns"), on="rank")
        .group_by("rank")
        .agg(
            (begin < pl.col("start_ns")).sum().cast(pl.Int64).alias(f"steps_{START_UP}"),
            (end > pl.col("end_ns")).sum().cast(pl.Int64).alias(f"steps_{TAIL}"),
        )
    )
    # What a program marks are its steps, however much comes before them.
    marked = pl.col("source") != FOUND_ON_DEVICE
    found = spans.join(_list_held(ops, spans), on="rank", how="semi")
    return (
        pl.concat([spans.filter(marked), found.filter(~marked)])
        .join(windows, on="rank")
        .join(beside, on="rank")
        .sort("rank")
    )


def _list_held(ops: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """The ranks on each of whose devices most of the kernels' time lies in the steps."""
    length = pl.col("end_ns") - pl.col("start_ns")
    inside = pl.col("start_ns").is_between("begin", "stop")
    return (
        ops.filter(~pl.col("kind").is_in(["memcpy", "memset"]))
        .join(spans.select("rank", begin="start_ns", stop="end_ns"), on="rank")
        .group_by("rank", "device_id")
        .agg(held=100 * length.filter(inside).sum() >= _LEAST_KERNELS_PCT * length.sum())
        .group_by("rank")
        .agg(pl.col("held").all())
        .filter("held")
    )


def _list_segments(run: Run) -> pl.DataFrame:
    host = pl.col("host_start_ns"), pl.col("host_end_ns")
    # What the host does before the first and after the last operation is of the edges.
    spans = {
        START_UP: (pl.col("since"), pl.col("start_ns"), pl.col("since"), host[0]),
        REPEATING: (pl.col("start_ns"), pl.col("end_ns"), *host),
        TAIL: (pl.col("end_ns"), pl.col("until"), host[1], pl.col("until")),
    }
    parts = find_repeating_part(run)
    return (
        pl.concat(
            parts.select(
                "rank",
                segment=pl.lit(name),
                start_ns=begin,
                end_ns=end,
                host_start_ns=called,
                host_end_ns=returned,
                steps=pl.col("steps") if name == REPEATING else pl.lit(0, pl.Int64),
            )
            for name, (begin, end, called, returned) in spans.items()
        )
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .sort("rank", "start_ns")
        .select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    )
