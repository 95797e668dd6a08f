"""What the rules about kernels share: kernels that could be shorter or absent, as one finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from sightline.core.algebra.intervals import measure_cover
from sightline.core.algebra.lookup import Texts, find_rows, keep_rows
from sightline.core.algebra.order import sort_rows
from sightline.core.algebra.scalars import find_largest
from sightline.core.algebra.window import select_starting_in
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct
from sightline.diagnosis.build import (
    MAX_ROWS,
    NOTABLE_PCT,
    Advice,
    Evidence,
    Loss,
    keep_notable,
    make_finding,
)
from sightline.replay.gains import sum_windows
from sightline.replay.graph import list_nodes
from sightline.replay.host_changes import remove_ranges
from sightline.replay.replay import (
    remove_ops,
    scale_ops,
    select_calls_of,
    select_ops,
    shorten_thinking,
)
from sightline.timeline import kernel_kinds
from sightline.timeline.communication_names import PATTERN as COMMUNICATION
from sightline.timeline.host_ranges import find_host_ancestor
from sightline.timeline.kernel_kinds import match_kind

_COLUMNS = (
    "device_op_id",
    "rank",
    "device_id",
    "stream_id",
    "name",
    "start_ns",
    "end_ns",
    "launch_id",
    *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"),
)
LENGTH = pl.col("end_ns") - pl.col("start_ns")
# Names that PyTorch's pointwise kernels have, eager and compiled (ATen/native/cuda; Inductor names
# its pointwise kernels triton_poi_*).
POINTWISE = r"elementwise_kernel|triton_poi_"
# Longer than so many usual times the host was busy with something else (ours: of 2,019 launches in
# a loop over parameters the longest regular one took 4.6 medians, the others hundreds).
_PAUSE = 10
GEMM, SOFTMAX = match_kind(kernel_kinds.PRODUCT), match_kind(kernel_kinds.SOFTMAX)


def has_kernel(run: Run, pattern: str) -> bool:
    """Whether any kernel's name matches: asked of the names, of which there are few."""
    return bool(run.ask("kernels").get_column("name").str.contains(pattern).any())


def list_kernels(run: Run, pattern: str | None = None) -> pl.DataFrame:
    """The window's kernels (of matching names) in order of stream and start, with `length` (ns)."""
    kernels = run.once(_list_kernels)
    return kernels if pattern is None else kernels.filter(match_kernels(run, pattern))


def list_work(run: Run) -> pl.DataFrame:
    """The window's kernels, copies and fills, as `list_kernels` has the kernels."""
    return run.once(_list_work)


def match_kernels(run: Run, pattern: str) -> pl.Series:
    """Which of `list_kernels` have a matching name."""
    return run.once(_list_names).match(pattern)


def _list_names(run: Run) -> Texts:
    return Texts(list_kernels(run).get_column("name"))


def list_computing(run: Run) -> pl.DataFrame:
    """The window's kernels but those that have the name of a communication library's."""
    return keep_rows(list_kernels(run), ~match_kernels(run, COMMUNICATION))


def _list_kernels(run: Run) -> pl.DataFrame:
    work = run.once(_list_operations)
    return keep_rows(work, work.get_column("kind") == "kernel").drop("kind")


def _list_work(run: Run) -> pl.DataFrame:
    return run.once(_list_operations).drop("kind")


def _list_operations(run: Run) -> pl.DataFrame:
    ops = run.columns("device_ops", [*_COLUMNS, "kind"])
    ops = keep_rows(ops, ops.get_column("kind").is_in(["kernel", "memcpy", "memset"]))
    inside = select_starting_in(ops, run.ask("windows"))
    in_order = sort_rows(inside, ("rank", "device_id", "stream_id", "start_ns", "device_op_id"))
    return in_order.with_columns(length=LENGTH)


def add_shapes(run: Run, kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernels with `shapes`: the input shapes of the operator that launched them, if recorded."""
    host = run.table("host_ops", ["host_op_id", "input_shapes"])
    ids, shapes = host.get_column("host_op_id"), host.get_column("input_shapes")
    if shapes.null_count() == shapes.len():
        return kernels.with_columns(shapes=pl.lit(None, pl.String))
    known = ids.filter(shapes.is_not_null())
    owner = find_host_ancestor(run, kernels.get_column("launch_id"), known)
    return kernels.with_columns(owner=owner, shapes=shapes.gather(find_rows(ids, owner)))


def escape_braces(name: str) -> str:
    """A name for a summary that is formatted once more: its braces stay braces."""
    return name.replace("{", "{{").replace("}", "}}")


def _is_launched(run: Run) -> bool:
    """Whether a replay knows what most operations wait for: migrations of pages have no launch."""
    launches = run.columns("device_ops", ("launch_id",)).get_column("launch_id")
    return 2 * launches.null_count() <= launches.len() or not run.rows("host_ops")


def find_shorter_kernels(
    run: Run,
    rule: Rule,
    shorter: pl.DataFrame,
    summary: str,
    *,
    cause: str,
    fix: str,
    verify: str = "sightline stats kernels AFTER: total_ns of these kernels",
    sources: Sequence[str],
    extra: Sequence[str] = (),
    confidence: str = "medium",
    is_bound: bool = False,
    with_host: bool = False,
    host: pl.DataFrame | None = None,
    also_launch_bound: bool = False,
    title: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> Finding | None:
    """The finding that some kernels could be shorter, or None where that is worth too little.

    `shorter` has the rows of `list_kernels` that are meant and `factor`, what of each one's length
    remains (0: the kernel is gone), or the least that may remain (`is_bound`). `summary` may use
    {share}. `with_host`: what the host does before the launch of a kernel that is gone goes too,
    as where a compiler puts one kernel in the place of several operators; `host` are ranges of
    threads that go with them (rank, pid, tid, start_ns, end_ns). `also_launch_bound`: of
    devices that wait for launches, too, where the launches go away.
    """
    if not also_launch_bound:
        shorter = _drop_launch_bound(run, shorter)
    if shorter.is_empty():
        return None
    lost = shorter.with_columns(lost=(pl.col("length") * (1 - pl.col("factor"))).round())
    cost = int(lost.get_column("lost").sum())
    pct = 100 * cost / sum_windows(run)
    if pct < NOTABLE_PCT and not also_launch_bound:
        return None
    worst = find_largest(
        lost.group_by("rank", "device_id").agg(pl.col("lost").sum().cast(pl.Int64)), "lost"
    )
    gone = shorter.filter(pl.col("factor") == 0).get_column("device_op_id")
    factors = shorter.filter(pl.col("factor") > 0).select(ref_id="device_op_id", factor="factor")

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        if host is not None:
            nodes = remove_ranges(nodes, host)
        fewer = remove_ops(_drop_thinking(nodes, gone) if with_host else nodes, gone)
        return fewer if factors.is_empty() else scale_ops(fewer, factors)

    found = make_finding(
        run,
        rule,
        summary.format(share=format_pct(pct)),
        Loss(
            cost_ns=cost,
            bound_ns=worst,
            change=without if _is_launched(run) else None,
            behind_ns=_measure_host(run, gone, host) if with_host else 0,
            behind="is the host's work for them while the GPU is idle",
        ),
        Evidence(
            [*_describe_groups(shorter), *extra],
            rows=_list_longest(shorter),
            where=_locate(shorter) | dict(where or {}),
            calls=lost.select(host_op_id="launch_id", ns="lost"),
        ),
        Advice(fix=fix, verify=verify, cause=cause, sources=sources),
        confidence=confidence,
        title=title,
        is_bound=is_bound,
    )
    return next(keep_notable(run, found), None)


def _measure_host(run: Run, gone: pl.Series, host: pl.DataFrame | None) -> int:
    """What the host does for these operations while a device is idle, ns: no more than that."""
    nodes = list_nodes(run)
    whole = select_calls_of(nodes, select_ops(nodes, gone))
    calls = nodes.with_columns(lag=_measure_lags(nodes, whole)).filter(whole)
    before = pl.col("start_ns") - pl.col("lag")
    thread = ["rank", "pid", "tid"]
    deeds = [calls.select(*thread, start_ns=before, end_ns="end_ns")]
    if host is not None:
        deeds.append(host.select(*thread, "start_ns", "end_ns"))
    spent = measure_cover(pl.concat(deeds, how="vertical_relaxed"), ["rank"])
    idle = run.ask("breakdown").group_by("rank").agg(pl.col("idle_ns").max())
    both = spent.join(idle, on="rank").select(pl.min_horizontal("covered_ns", "idle_ns"))
    return int(both.to_series().max() or 0)  # type: ignore[arg-type]


def _drop_thinking(nodes: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """The nodes with no time between the launches of these operations and the calls before them."""
    whole = select_calls_of(nodes, select_ops(nodes, ids))
    return shorten_thinking(nodes, _measure_lags(nodes, whole))


def _measure_lags(nodes: pl.DataFrame, calls: pl.Series) -> pl.Series:
    """What the host does just before these calls (a mask), and for them: ns, 0 for other nodes.

    Of a pause no more than `_PAUSE` times what it usually takes: that came before them.
    """
    lags = nodes.get_column("prev_lag_ns").fill_null(0).clip(0)
    usual = lags.filter(calls).median()
    most = int(_PAUSE * float(usual)) if isinstance(usual, int | float) else 0
    return lags.clip(upper_bound=most) * calls.cast(pl.Int64)


def _drop_launch_bound(run: Run, kernels: pl.DataFrame) -> pl.DataFrame:
    """Without devices that wait for launches: a shorter kernel gains nothing there."""
    if not run.rows("host_ops"):
        return kernels
    bound = run.ask("launch_pressure").filter("launch_bound")
    return kernels.join(bound, on=["rank", "device_id"], how="anti")


def _group_by_name(shorter: pl.DataFrame) -> pl.DataFrame:
    return (
        shorter.group_by("name")
        .agg(n=pl.len(), ns=pl.col("length").sum())
        .sort("ns", "name", descending=[True, False])
    )


def _describe_groups(shorter: pl.DataFrame) -> list[str]:
    """'40 × name, 3.2 ms', the most expensive first."""
    return [
        f"{format_count(n)} × {shorten_kernel_name(name)}, {format_ns(ns)}"
        for name, n, ns in _group_by_name(shorter).head(3).rows()
    ]


def _locate(shorter: pl.DataFrame) -> dict[str, Any]:
    return {
        "kernel": _group_by_name(shorter).item(0, "name"),
        "ranks": shorter.get_column("rank").unique().sort().to_list(),
        "stream_id": shorter.item(0, "stream_id"),
    }


def _list_longest(shorter: pl.DataFrame) -> list[dict[str, Any]]:
    return (
        shorter.sort("length", "device_op_id", descending=[True, False])
        .head(MAX_ROWS)
        .select(
            "device_op_id",
            "rank",
            "device_id",
            "stream_id",
            "start_ns",
            "end_ns",
            "name",
            "launch_id",
        )
        .to_dicts()
    )
