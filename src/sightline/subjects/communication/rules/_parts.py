"""What the rules about one part of exposed communication share: its kernels as one finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_ns, format_pct, format_several
from sightline.diagnosis.build import MAX_ROWS, NOTABLE_PCT, Advice, Evidence, Loss, make_finding
from sightline.replay.gains import sum_windows
from sightline.timeline.communication import list_communication

_SHOWN = ("device_op_id", "rank", "device_id", "start_ns", "end_ns")


def find_exposed_part(
    run: Run,
    rule: Rule,
    part: str,
    what: str,
    without: Callable[[pl.DataFrame, pl.Series], pl.DataFrame],
    *,
    cause: str,
    fix: str,
    source: str,
) -> Iterator[Finding]:
    """At most one finding over all devices, about a part of `comm_exposure`.

    `what` takes its share of the window; `without` gives the graph without the kernels of these
    ids.
    """
    if not run.rows("device_ops") or not sum_column(run.ask("breakdown"), "exposed_comm_ns"):
        return
    column = f"{part}_ns"
    parts = run.ask("comm_exposure")
    cost, worst = sum_column(parts, column), find_largest(parts, column)
    pct = 100 * cost / sum_windows(run)
    if pct < NOTABLE_PCT:
        return
    kernels = list_communication(run).filter(pl.col("part") == part)
    ids = kernels.get_column("device_op_id")
    yield make_finding(
        run,
        rule,
        f"{format_pct(pct)} of the window is {what}.",
        Loss(cost, worst, lambda nodes: without(nodes, ids)),
        Evidence(
            _describe_kernels(kernels),
            rows=kernels.head(MAX_ROWS).select(_SHOWN).to_dicts(),
            where={"ranks": kernels.get_column("rank").unique().sort().to_list()},
        ),
        Advice(
            fix=fix,
            verify=f"sightline stats comm_exposure AFTER: {column} "
            f"(now {format_ns(worst)} at most)",
            cause=cause,
            sources=(source,),
        ),
        confidence="medium",
    )


def _describe_kernels(kernels: pl.DataFrame) -> list[str]:
    """How many, how long in all, and their median size where it was recorded."""
    busy = sum_column(kernels.select(ns=pl.col("end_ns") - pl.col("start_ns")), "ns")
    lines = [f"{format_several(kernels.height, 'operation')}, {format_ns(busy)} in all"]
    size = kernels.get_column("size").median()
    if isinstance(size, int | float):
        lines.append(f"median size {format_bytes(size)}")
    return lines
