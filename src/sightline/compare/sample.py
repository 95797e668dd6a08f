"""What one run brings to a comparison: its steps, and what a step is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from sightline.compare.facts import Facts, read_facts
from sightline.compare.statistics import Spread, measure_spread
from sightline.core.algebra.intervals import clip_intervals
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.timeline.own_time import list_operations
from sightline.timeline.step_clock import list_steady_steps, list_steps

# What a step is made of, in the order in which it is shown.
GPU_PARTS = ("compute", "exposed_comm", "exposed_copy", "unknown", "idle")
CPU_PARTS = ("operators", "other")
PLACE = ("operator", "outer_operator", "place")
KEY = ("part", "name", *PLACE)


@dataclass(frozen=True)
class Sample:
    """One run, in its steady steps.

    `steps` are their lengths, ns, a mean over the ranks; where no step is known there is one: the
    whole window. `length` is their spread. `count` is steps × devices, and `leaves` says what all
    of them are made of: a row for each operation and each cause of idle time, disjoint, whose
    `own_ns` sum to `whole_ns`. `series` are the own times of the operations that have any, step by
    step: `leaf` is the row in `leaves`, `step` the ordinal of the step. Of a fingerprint there is
    no `run` and no list of `steps`, and for `series` there are the leaves' `spreads` over the
    steps. `edges` are each rank's steps: `start_ns`, `length` in ns, `step`. `left_out` counts
    operations at the begin that belong to something earlier.
    """

    run: Run | None
    name: str
    steps: tuple[float, ...]
    length: Spread
    source: str | None  # of the steps: marks, ranges, kernel order; None without
    confidence: str
    has_device: bool  # a device's timeline was recorded; else the steps are the CPU's
    devices: int
    count: int
    whole_ns: int
    leaves: pl.DataFrame
    series: pl.DataFrame | None
    left_out: int
    facts: Facts
    spreads: Mapping[int, Spread] = field(default_factory=dict)
    edges: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def step_ns(self) -> float:
        """The mean step."""
        return self.whole_ns / self.count


def take_sample(run: Run, name: str) -> Sample:
    """The steady steps of a run; of its window, where it has one. Raises MissingDataError."""
    if not run.rows("device_ops") and not run.rows("host_ops"):
        has_stacks = run.rows("cpu_samples") or run.rows("stack_weights")
        raise MissingDataError(
            f"{name} cannot be compared",
            why="it has stack samples but no timeline whose steps could be compared"
            if has_stacks
            else f"it has no timeline, but {', '.join(run.present()) or 'no rows'}",
            hint="Which is faster, and by which functions:  sightline try -- BEFORE -- AFTER"
            if has_stacks
            else "Record one:  sightline run -- COMMAND",
        )
    steps = _choose_steps(run)
    left_out = 0
    if steps.height:
        on = run.with_window("steady")
    else:
        on, left_out = _leave_out_earlier(run)
    has_device = bool(run.rows("device_ops"))
    windows = on.ask("windows") if has_device else _find_cpu_window(run, steps)
    edges = _list_edges(steps, windows)
    leaves, series = (_split_device if has_device else _split_cpu)(on, windows, edges)
    lengths = (
        edges.group_by("step", maintain_order=True)
        .agg(ns=pl.col("length").mean(), ranks=pl.len())
        .filter(pl.col("ranks") == pl.col("ranks").max())
    )
    span = pl.col("window_end_ns") - pl.col("window_start_ns")
    per_rank = edges.group_by("rank").agg(n=pl.len())
    count = int(windows.join(per_rank, on="rank").get_column("n").sum())
    steps_ns = tuple(lengths.get_column("ns").to_list())
    return Sample(
        run=on,
        name=name,
        steps=steps_ns,
        length=measure_spread(steps_ns),
        source=steps.item(0, "source") if steps.height else None,
        confidence=steps.item(0, "confidence") if steps.height else "none",
        has_device=has_device,
        devices=windows.height,
        count=count,
        whole_ns=int(windows.select(span.sum()).item()),
        leaves=leaves,
        series=series,
        left_out=left_out,
        facts=read_facts(on, leaves, count, has_steps=bool(steps.height)),
        edges=edges,
    )


def measure_groups(sample: Sample, groups: pl.DataFrame) -> dict[int, Spread]:
    """How the own time of groups of leaves varies over a run's steps, ns a device.

    `groups` has `leaf` and `group`. A group of which no step is known is missing. Of a
    fingerprint's leaves only the mean is known once they are added.
    """
    if sample.series is None:
        return _add_spreads(sample, groups)
    count = sample.length.count
    per_step = (
        sample.series.join(groups, on="leaf")
        .filter(pl.col("step") < count)
        .group_by("group", "step")
        .agg(pl.col("own_ns").sum() / sample.devices)
    )
    values: dict[int, list[float]] = {}
    for group, step, own in per_step.iter_rows():
        values.setdefault(group, [0.0] * count)[step] = own
    return {group: measure_spread(own) for group, own in values.items()}


def _add_spreads(sample: Sample, groups: pl.DataFrame) -> dict[int, Spread]:
    found = {}
    for (group,), mine in groups.partition_by("group", as_dict=True).items():
        spreads = [sample.spreads.get(leaf) for leaf in mine.get_column("leaf")]
        known = [spread for spread in spreads if spread is not None]
        if len(known) == len(spreads):
            mean = sum(spread.mean for spread in known)
            found[group] = known[0] if len(known) == 1 else Spread(1, mean)
    return found


def _leave_out_earlier(run: Run) -> tuple[Run, int]:
    """The run from its first operation that it has seen launched, and how many come before.

    What was launched before a recording began is the rest of what the program did then. Only of one
    device: a window begins at one moment after each device's first operation.
    """
    ops = run.table("device_ops").sort("start_ns")
    known = ops.filter(pl.col("launch_id").is_not_null())
    several = ops.select("rank", "device_id").unique().height != 1
    if run.window is not None or several or known.is_empty():
        return run, 0
    begin = known.item(0, "start_ns")
    first = ops.item(0, "start_ns")
    earlier = ops.filter(pl.col("start_ns") < begin).height
    return (run.with_window(f"{begin - first}ns..") if earlier else run), earlier


def _choose_steps(run: Run) -> pl.DataFrame:
    """The steady steps by the clock; none where it is unsure which they are, or of one alone.

    Who asks for the steady window takes them as they are, though unsure. A single marked step
    is a recording of one step: what the device did late of it belongs to it.
    """
    steps = list_steps(run)
    if run.window is None:
        steps = steps.filter(pl.col("confidence") != "low")
    elif run.window != "steady":
        return steps.clear()
    if run.rows("device_ops"):
        known = run.table("device_ops", ["rank"]).unique()
        steps = steps.join(known, on="rank", how="semi", maintain_order="left")
        if steps.get_column("rank").n_unique() < known.height:
            return steps.clear()
    if steps.group_by("rank").len().filter(pl.col("len") < 2).height:
        return steps.clear()
    steady = list_steady_steps(run)
    return steady.join(steps, on=["rank", "start_ns"], how="semi", maintain_order="left")


def _find_cpu_window(run: Run, steps: pl.DataFrame) -> pl.DataFrame:
    """The steps' span on each rank, or all of its ranges'; as device 0 for the CPU."""
    rows = steps if steps.height else run.table("host_ops")
    return (
        rows.group_by("rank")
        .agg(window_start_ns=pl.col("start_ns").min(), window_end_ns=pl.col("end_ns").max())
        .select("rank", pl.lit(0, pl.Int64).alias("device_id"), "window_start_ns", "window_end_ns")
        .sort("rank")
    )


def _list_edges(steps: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """When each rank's steps start and how long they are, up to the next one's start."""
    ends = windows.group_by("rank").agg(
        pl.col("window_start_ns").min(), pl.col("window_end_ns").max()
    )
    if steps.is_empty():
        steps = ends.select("rank", start_ns="window_start_ns")
    following = pl.col("start_ns").shift(-1).over("rank")
    return (
        steps.sort("rank", "start_ns")
        .join(ends, on="rank", maintain_order="left")
        .select(
            "rank",
            "start_ns",
            length=following.fill_null(pl.col("window_end_ns")) - pl.col("start_ns"),
            step=pl.int_range(pl.len(), dtype=pl.Int64).over("rank"),
        )
    )


def _split_device(
    run: Run, windows: pl.DataFrame, edges: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Operations and causes of idle time of all devices in the window."""
    rows = list_operations(run).rename({"class_": "part"})
    idle = (
        run.ask("idle")
        .group_by("cause")
        .agg(instances=pl.col("gaps").sum(), own_ns=pl.col("total_ns").sum())
        .filter(pl.col("own_ns") > 0)
        .select("instances", "own_ns", part=pl.lit("idle"), name="cause", total_ns="own_ns")
    )
    return _add_up(rows, edges, idle)


def _split_cpu(
    run: Run, windows: pl.DataFrame, edges: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Outermost operators of each rank's busiest thread, and the time outside of them."""
    host = run.table("host_ops").filter(pl.col("layer") == "op")
    thread = ["rank", "pid", "tid"]
    busiest = (
        host.group_by(thread)
        .agg(n=pl.len())
        .sort("n", *thread, descending=[True, False, False, False])
        .unique("rank", keep="first", maintain_order=True)
    )
    mine = host.join(busiest, on=thread, how="semi", nulls_equal=True).sort("host_op_id")
    # Ids are preorder: what begins inside an operator before it is inside of it.
    reach = pl.col("subtree_end_id").cum_max().shift(1).over("rank")
    outermost = mine.filter((pl.col("host_op_id") >= reach).fill_null(value=True))
    rows = clip_intervals(outermost.select("rank", "name", *_SPAN), windows, ["rank"]).with_columns(
        own_ns=pl.col("end_ns") - pl.col("start_ns"),
        part=pl.lit("operators"),
        operator="name",
        outer_operator="name",
        place=pl.lit(None, pl.String),
    )
    whole = windows.select((pl.col("window_end_ns") - pl.col("window_start_ns")).sum()).item()
    rest = whole - int(rows.get_column("own_ns").sum())
    outside = pl.DataFrame(
        {"instances": [0], "own_ns": [rest], "part": ["other"], "name": ["outside operators"]}
    ).with_columns(total_ns="own_ns")
    return _add_up(rows, edges, outside)


_SPAN = ("start_ns", "end_ns")


def _add_up(
    rows: pl.DataFrame, edges: pl.DataFrame, extra: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Leaves and series of these operations; `extra` are leaves of which no series is known."""
    # Categories of texts group several times as fast as texts.
    rows = rows.with_columns(pl.col(KEY).cast(pl.String).cast(pl.Categorical))
    steps = [
        mine.with_columns(
            step=starts.search_sorted(mine.get_column("start_ns"), side="right").cast(pl.Int64) - 1
        )
        for (rank,), mine in rows.partition_by("rank", as_dict=True).items()
        for starts in [edges.filter(pl.col("rank") == rank).get_column("start_ns")]
    ]
    by_step = (
        pl.concat(steps or [rows.with_columns(step=pl.lit(0, pl.Int64))])
        .group_by(*KEY, pl.col("step").clip(lower_bound=0))
        .agg(
            instances=pl.len().cast(pl.Int64),
            total_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
            own_ns=pl.col("own_ns").sum(),
        )
    )
    amounts = ("instances", "total_ns", "own_ns")
    leaves = (
        by_step.group_by(KEY)
        .agg(pl.col(amounts).sum())
        .with_columns(pl.col(KEY).cast(pl.String))
        .sort(*KEY)
        .with_columns(leaf=pl.int_range(pl.len(), dtype=pl.Int64))
    )
    series = by_step.with_columns(pl.col(KEY).cast(pl.String)).join(
        leaves.select(*KEY, "leaf"), on=KEY, nulls_equal=True
    )
    extra = extra.with_columns(leaf=leaves.height + pl.int_range(pl.len(), dtype=pl.Int64))
    all_leaves = pl.concat([leaves, extra], how="diagonal_relaxed")
    return all_leaves, series.select("leaf", "step", *amounts).sort("leaf", "step")
