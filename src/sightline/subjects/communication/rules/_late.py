"""Which ranks come late to collectives, how long the others wait, and what the late ones do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import average_column, find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct, format_several
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, Loss, make_finding
from sightline.replay.gains import Change, sum_windows
from sightline.timeline.communication import list_communication


@dataclass(frozen=True)
class Late:
    """Ranks that the others wait for."""

    ranks: list[int]
    cost_ns: int  # exposed waiting over all devices
    worst_ns: int  # on the rank that waits most
    pct: float
    arrivals: pl.DataFrame  # rank, collectives, last, added_ns, waited_ns
    computes_more_ns: float  # compute of the late ranks less that of the others, means
    idles_more_ns: float
    late_at_first: dict[int, int]  # rank: ns that it added to the run's first collective

    @property
    def by_work(self) -> bool:
        """Whether they have more to compute, rather than being fed late."""
        return self.computes_more_ns > self.idles_more_ns


def find_late_ranks(run: Run) -> Late | None:
    """The late ranks, or None: too little is lost, or the ranks' collectives do not match."""
    if not run.rows("device_ops") or not sum_column(run.ask("breakdown"), "exposed_comm_ns"):
        return None
    parts = run.ask("comm_exposure")
    cost = sum_column(parts, "waiting_ns")
    pct = 100 * cost / sum_windows(run)
    if pct < NOTABLE_PCT:
        return None
    met = _add_waits(list_communication(run).drop_nulls("meeting"))
    arrivals = _count_arrivals(met)
    # Late is who adds more than an equal share of all that is added.
    share = arrivals.get_column("added_ns").sum() / max(arrivals.height, 1)
    ranks = arrivals.filter(pl.col("added_ns") > share).get_column("rank").to_list()
    rows = run.ask("breakdown")
    is_late = pl.col("rank").is_in(ranks)
    own, others = rows.filter(is_late), rows.filter(~is_late)
    if own.is_empty() or others.is_empty():
        return None
    return Late(
        ranks,
        cost,
        find_largest(parts, "waiting_ns"),
        pct,
        arrivals,
        average_column(own, "compute_ns") - average_column(others, "compute_ns"),
        average_column(own, "idle_ns") - average_column(others, "idle_ns"),
        dict(
            met.filter(pl.col("meeting") == pl.col("meeting").min(), "is_last")
            .filter(is_late)
            .select("rank", "adds")
            .iter_rows()
        ),
    )


def _add_waits(met: pl.DataFrame) -> pl.DataFrame:
    """Each member's wait, whether it came last, and what the last one added."""
    return met.with_columns(
        wait=pl.col("last") - pl.col("start_ns"),
        is_last=pl.col("start_ns") == pl.col("last"),
        # How much earlier all could have begun without the one that came last.
        adds=pl.col("last")
        - pl.col("start_ns").sort(descending=True).slice(1, 1).first().over("meeting"),
    )


def _count_arrivals(met: pl.DataFrame) -> pl.DataFrame:
    """Per rank: how often it came last, what that added, how long it waited for others."""
    return (
        met.group_by("rank")
        .agg(
            collectives=pl.len(),
            last=pl.col("is_last").sum(),
            added_ns=pl.col("adds").filter("is_last").sum(),
            waited_ns=pl.col("wait").sum(),
        )
        .sort("rank")
    )


def make_late_finding(
    run: Run, rule: Rule, found: Late, change: Change, *, why: str, cause: str, fix: str
) -> Finding:
    """The finding about late ranks; straggler-rank and imbalance differ in why they are late."""
    who = name_ranks(found.ranks)
    last = found.arrivals.filter(pl.col("rank").is_in(found.ranks))
    return make_finding(
        run,
        rule,
        f"Ranks spend {format_pct(found.pct)} of the window in collectives, waiting for {who}, "
        f"{why}.",
        Loss(cost_ns=found.cost_ns, bound_ns=found.worst_ns, change=change),
        Evidence(
            [
                *(
                    f"rank {r['rank']} arrived last at {format_count(r['last'])} of "
                    f"{format_several(r['collectives'], 'collective')}, which added "
                    f"{format_ns(r['added_ns'])}"
                    for r in last.iter_rows(named=True)
                ),
                f"compute there less than elsewhere: {format_ns(found.computes_more_ns)}; "
                f"idle: {format_ns(found.idles_more_ns)} (means)",
            ],
            rows=found.arrivals.to_dicts(),
            where={"late_ranks": found.ranks, "ranks": found.ranks},
        ),
        Advice(
            fix=fix,
            verify="sightline stats comm_exposure AFTER: waiting_ns "
            f"(now {format_ns(found.worst_ns)} at most)",
            cause=cause,
            sources=("TraceLens NcclAnalyser: wait and skew",),
        ),
        confidence="medium",
    )


def name_ranks(ranks: list[int]) -> str:
    """'rank 3', 'ranks 0 and 6', 'ranks 1, 2 and 5'."""
    *first, last = map(str, ranks)
    return f"ranks {', '.join(first)} and {last}" if first else f"rank {last}"


def name_group(row: Mapping[str, Any]) -> str:
    """A process group as its program calls it, and as PyTorch does: 'group TENSOR (35)'."""
    said, name = row["group_description"], row["group"]
    return f"group {said} ({name})" if said and said != name else f"group {name}"
