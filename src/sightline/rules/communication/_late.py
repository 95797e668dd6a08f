"""Which ranks come late to collectives, how long the others wait, and what the late ones do."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.algebra.scalars import largest, mean, total
from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.finding import NOTABLE_PCT, Advice, Evidence, Loss, make_finding
from sightline.timeline.communication import members
from sightline.timeline.gains import Change, window_ns
from sightline.units import format_count, format_ns, format_pct


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


def late(run: Run) -> Late | None:
    """The late ranks, or None: too little is lost, or the ranks' collectives do not match."""
    if not run.rows("device_ops") or not total(run.ask("breakdown"), "exposed_comm_ns"):
        return None
    parts = run.ask("comm_exposure")
    cost = total(parts, "waiting_ns")
    pct = 100 * cost / window_ns(run)
    if pct < NOTABLE_PCT:
        return None
    met = _with_added(members(run).drop_nulls("meeting"))
    arrivals = _arrivals(met)
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
        largest(parts, "waiting_ns"),
        pct,
        arrivals,
        mean(own, "compute_ns") - mean(others, "compute_ns"),
        mean(own, "idle_ns") - mean(others, "idle_ns"),
        dict(
            met.filter(pl.col("meeting") == pl.col("meeting").min(), "is_last")
            .filter(is_late)
            .select("rank", "adds")
            .iter_rows()
        ),
    )


def _with_added(met: pl.DataFrame) -> pl.DataFrame:
    """Each member's wait, whether it came last, and what the last one added."""
    return met.with_columns(
        wait=pl.col("last") - pl.col("start_ns"),
        is_last=pl.col("start_ns") == pl.col("last"),
        # How much earlier all could have begun without the one that came last.
        adds=pl.col("last")
        - pl.col("start_ns").sort(descending=True).slice(1, 1).first().over("meeting"),
    )


def _arrivals(met: pl.DataFrame) -> pl.DataFrame:
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


def late_finding(
    run: Run, rule: Rule, found: Late, change: Change, *, why: str, cause: str, fix: str
) -> Finding:
    """The finding about late ranks; straggler-rank and imbalance differ in why they are late."""
    who = ", ".join(str(r) for r in found.ranks)
    last = found.arrivals.filter(pl.col("rank").is_in(found.ranks))
    return make_finding(
        run,
        rule,
        f"For {format_pct(found.pct)} of the window ranks wait in collectives for rank {who}, "
        f"{why}.",
        Loss(cost_ns=found.cost_ns, bound_ns=found.worst_ns, change=change),
        Evidence(
            [
                *(
                    f"rank {r['rank']} came last to {format_count(r['last'])} of "
                    f"{format_count(r['collectives'])} collectives, which added "
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
