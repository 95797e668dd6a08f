"""What the operating system counted for each step's thread, and what recording added to steps.

The counters stand at the ends of steps (record/inline/usage.py); between two of them lies an
interval of one or more steps. A thread runs, waits for a CPU, or sleeps: the three are the
interval.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model import usage_metrics as m
from sightline.core.model.run import Run
from sightline.timeline.iterations import find_recorded_spans, list_marked_steps

_COLUMNS = {
    m.THREAD_CPU: "running_ns",
    m.THREAD_QUEUED: "queued_ns",
    m.THREAD_SLEEPS: "sleeps",
    m.THREAD_PREEMPTIONS: "preemptions",
    m.PROCESS_CPU: "process_ns",
    m.KERNEL_CPU: "kernel_ns",
    m.PAGE_FAULTS: "faults",
    m.BLOCK_IO: "disk_operations",
}
# A median of fewer says little (ours).
LEAST_STEPS = 3


def list_usage(run: Run) -> pl.DataFrame:
    """Intervals between readings: rank, start_ns, end_ns, recorded, and what was counted in each.

    running_ns, queued_ns and asleep_ns are the main thread's and sum to the interval; process_ns
    and kernel_ns are all threads' of the process, so they may be more than the interval; sleeps and
    preemptions of the thread, faults, disk_operations. `recorded` says whether operators were being
    recorded meanwhile. The time up to the first reading, in which programs import and set up, is in
    no row.
    """
    return run.once(_list_usage)


def _list_usage(run: Run) -> pl.DataFrame:
    wide = (
        run.scan("counters")
        .filter(pl.col("metric").is_in(list(_COLUMNS)))
        .select("rank", "time_ns", "metric", "value")
        .collect()
        .with_columns(pl.col("metric").replace_strict(_COLUMNS, return_dtype=pl.String))
        .pivot("metric", index=["rank", "time_ns"], values="value", aggregate_function="first")
        .sort("rank", "time_ns")
    )
    have = [c for c in _COLUMNS.values() if c in wide.columns]
    lacking = [pl.lit(None, pl.Int64).alias(c) for c in _COLUMNS.values() if c not in have]
    before = pl.col("time_ns").shift(1).over("rank")
    rows = wide.select(
        "rank",
        before.alias("start_ns"),
        pl.col("time_ns").alias("end_ns"),
        *(pl.col(c).diff().over("rank").round().cast(pl.Int64) for c in have),
        *lacking,
    ).filter(pl.col("start_ns").is_not_null(), pl.col("end_ns") > pl.col("start_ns"))
    length = pl.col("end_ns") - pl.col("start_ns")
    awake = pl.col("running_ns") + pl.col("queued_ns").fill_null(0)
    # Less than none where the thread was interrupted between the reading of two counters: the next
    # interval has it back, and sums are right.
    rows = rows.with_columns(asleep_ns=length - awake)
    return _mark_recorded(rows, find_recorded_spans(run))


def _mark_recorded(rows: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    touches = (pl.col("start_ns") < pl.col("until")) & (pl.col("end_ns") > pl.col("since"))
    return (
        rows.join(spans, on="rank", how="left", maintain_order="left")
        .with_columns(recorded=touches.fill_null(value=False))
        .drop("since", "until")
    )


def measure_recording_cost(run: Run) -> pl.DataFrame:
    """How long a step takes with and without the recording of operators, by rank.

    rank, recorded_step_ns and undisturbed_step_ns (medians), undisturbed_mean_ns, recorded_steps,
    undisturbed_steps. A rank has a row if it marked LEAST_STEPS of either kind; the first step, of
    the setup, and those beside the recording, in which a profiler starts and writes, count as none.
    """
    steps = _mark_recorded(list_marked_steps(run), find_recorded_spans(run)).sort(
        "rank", "start_ns"
    )
    is_first = pl.int_range(pl.len()).over("rank") == 0
    counted = steps.with_columns(
        undisturbed=~_touches_recording().over("rank") & ~is_first,
        ns=pl.col("end_ns") - pl.col("start_ns"),
    )
    each = counted.group_by("rank", maintain_order=True).agg(
        recorded_step_ns=pl.col("ns").filter("recorded").median(),
        undisturbed_step_ns=pl.col("ns").filter("undisturbed").median(),
        undisturbed_mean_ns=pl.col("ns").filter("undisturbed").mean(),
        recorded_steps=pl.col("recorded").sum().cast(pl.Int64),
        undisturbed_steps=pl.col("undisturbed").sum().cast(pl.Int64),
    )
    return each.filter(
        pl.col("recorded_steps") >= LEAST_STEPS, pl.col("undisturbed_steps") >= LEAST_STEPS
    )


def _touches_recording() -> pl.Expr:
    """Of rows in order of time: whether operators were recorded there, or right beside it."""
    recorded = pl.col("recorded")
    return pl.any_horizontal(recorded, *(recorded.shift(n, fill_value=False) for n in (1, -1)))


def sum_usage(run: Run) -> pl.DataFrame:
    """One row per rank over its steady steps: what list_usage counts, added up, with the shares.

    Besides: length_ns, steps, running_pct, queued_pct and asleep_pct of it, kernel_pct (may pass
    100: all threads'), cpus, the CPUs that the process kept busy, usable_cpus, torch_threads, with
    which PyTorch computes, and preempted_ratio: which share of the thread's waits for a CPU began
    with a preemption; the others began when it woke. Steps in which operators were recorded, and
    those beside the recording, in which a profiler starts and writes, count where there are too few
    others; a rank with less than LEAST_STEPS intervals has no row.
    """
    return run.once(_sum_usage)


def _sum_usage(run: Run) -> pl.DataFrame:
    is_bare = ~_touches_recording().over("rank")
    rows = list_usage(run).with_columns(is_bare=is_bare)
    rows = rows.with_columns(bare=pl.col("is_bare").sum().over("rank"))
    kept = rows.filter((pl.col("bare") < LEAST_STEPS) | pl.col("is_bare"))
    length = (pl.col("end_ns") - pl.col("start_ns")).sum()
    starts = list_marked_steps(run).select("rank", "start_ns", "end_ns")
    steps = (
        kept.select("rank", since="start_ns", until="end_ns")
        .join(starts, on="rank")
        .filter(pl.col("end_ns") > pl.col("since"), pl.col("end_ns") <= pl.col("until"))
        .group_by("rank")
        .agg(steps=pl.len().cast(pl.Int64))
    )
    return (
        kept.group_by("rank", maintain_order=True)
        .agg(
            length_ns=length,
            intervals=pl.len(),
            recorded=pl.col("recorded").all(),
            **{
                name: pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum())
                for name in (*_COLUMNS.values(), "asleep_ns")
            },
        )
        .with_columns(pl.col("asleep_ns").clip(0))
        .filter(pl.col("intervals") >= LEAST_STEPS)
        .join(steps, on="rank", how="left", maintain_order="left")
        .with_columns(
            *(
                (100 * pl.col(f"{name}_ns") / pl.col("length_ns")).alias(f"{name}_pct")
                for name in ("running", "queued", "asleep", "kernel")
            ),
            cpus=pl.col("process_ns") / pl.col("length_ns"),
            preempted_ratio=(
                pl.col("preemptions") / (pl.col("preemptions") + pl.col("sleeps"))
            ).fill_nan(0),
        )
        .drop("intervals")
        .join(_read_threads(run), on="rank", how="left", maintain_order="left")
        .sort("rank")
    )


def _take_in_steps(run: Run, wanted: pl.Expr) -> pl.DataFrame:
    """Counters from the end of each rank's first step to that of its last: rank, time, value."""
    ends = list_marked_steps(run).group_by("rank")
    spans = ends.agg(since=pl.col("end_ns").min(), until=pl.col("end_ns").max())
    rows = run.scan("counters").filter(wanted).select("rank", "metric", "time_ns", "value")
    inside = (pl.col("time_ns") >= pl.col("since")) & (pl.col("time_ns") <= pl.col("until"))
    return rows.collect().join(spans, on="rank").filter(inside).drop("since", "until")


def sum_sleeps(run: Run) -> pl.DataFrame:
    """What main threads slept for after their first step: rank, waits_for, slept_ns, samples.

    Of samples ten times a second from outside (record/collect/sleeps.py), the most frequent first.
    """
    return (
        _take_in_steps(run, pl.col("metric").str.starts_with(m.ASLEEP))
        .with_columns(waits_for=pl.col("metric").str.strip_prefix(m.ASLEEP))
        .group_by("rank", "waits_for")
        .agg(slept_ns=pl.col("value").sum().cast(pl.Int64), samples=pl.len().cast(pl.Int64))
        .sort("rank", "slept_ns", "waits_for", descending=[False, True, False])
    )


def _read_threads(run: Run) -> pl.DataFrame:
    """How many CPUs each rank's process may use, and how many threads PyTorch computes with."""
    rows = run.scan("counters").filter(pl.col("metric").is_in([m.USABLE_CPUS, m.COMPUTE_THREADS]))

    def take(metric: str) -> pl.Expr:
        return pl.col("value").filter(pl.col("metric") == metric).last().cast(pl.Int64)

    return (
        rows.group_by("rank")
        .agg(usable_cpus=take(m.USABLE_CPUS), torch_threads=take(m.COMPUTE_THREADS))
        .collect()
    )
