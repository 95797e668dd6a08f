"""How much of the main thread's window it slept or had no CPU, where steps were counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.diagnosis.build import Advice, Evidence, build_finding, grade_severity
from sightline.subjects.host.rules._there import There, find_there
from sightline.timeline.host_parts import (
    COMMUNICATE,
    ELSEWHERE,
    LOAD,
    list_long_python,
    list_segments,
    list_windows,
    sum_host_windows,
)
from sightline.timeline.step_usage import sum_usage

# Ours: as for loading (XProf: a step is input-bound where infeed is at or above 10 %).
WAITING_PCT = 10.0
_WOKEN = pl.col("queued_pct") * (1 - pl.col("preempted_ratio").fill_null(1))


@dataclass(frozen=True)
class Blocked:
    """Time of main threads: of all ranks, of the worst rank, in % of all windows, and on which.

    `each` has a row per rank: rank, ns.
    """

    cost_ns: int
    worst_ns: int
    pct: float
    there: There
    each: pl.DataFrame

    @property
    def ranks(self) -> list[int | None]:
        """The ranks that lose much of what the worst one does."""
        return self.there.ranks


def measure_queued(run: Run) -> Blocked | None:
    """In which main threads had no CPU after a preemption; None where no kernel counted that.

    A thread that wakes waits for a CPU, too: that ends with the sleep before it.
    """
    return measure_share(run, pl.col("queued_pct") * pl.col("preempted_ratio").fill_null(1))


def measure_unexplained_sleep(run: Run) -> Blocked | None:
    """In which main threads slept, or woke, beyond what loading and other threads explain.

    A lower bound: all of those parts may have been spent awake. It is never more than the long
    stretches without an operator: an operator sleeps while other threads compute their part of it.
    None where nothing was counted.
    """
    parts = list_segments(run).filter(pl.col("part").is_in([LOAD, COMMUNICATE, ELSEWHERE]))
    known = parts.group_by("rank").agg(known=pl.col("own_ns").sum())
    between = list_long_python(run).group_by("rank").agg(most=pl.col("own_ns").sum())
    return measure_share(run, pl.col("asleep_pct") + _WOKEN.fill_null(0), known, between)


def measure_woken(run: Run) -> Blocked | None:
    """In which main threads had been woken and had no CPU yet; None where nobody counted it."""
    return measure_share(run, _WOKEN)


def measure_share(
    run: Run, pct: pl.Expr, known: pl.DataFrame | None = None, most: pl.DataFrame | None = None
) -> Blocked | None:
    """So many per cent of each main thread's window, less what is `known` of its rank, at `most`.

    `pct` is of the columns of sum_usage. None where no rank has a value.
    """
    each = list_shares(run, pct, known, most)
    if each.is_empty():
        return None
    return sum_blocked(run, each)


def sum_blocked(run: Run, each: pl.DataFrame) -> Blocked:
    """What ranks lost (rank, ns), together."""
    cost = sum_column(each, "ns")
    pct = 100 * cost / sum_host_windows(run)
    return Blocked(cost, find_largest(each, "ns"), pct, find_there(run, each), each)


def list_shares(
    run: Run, pct: pl.Expr, known: pl.DataFrame | None = None, most: pl.DataFrame | None = None
) -> pl.DataFrame:
    """The same of each rank that has a value: rank, ns."""
    usage = sum_usage(run)
    if usage.is_empty():
        return pl.DataFrame(schema={"rank": pl.Int64, "ns": pl.Int64})
    windows = list_windows(run).select("rank", window=pl.col("end_ns") - pl.col("start_ns"))
    if known is None:
        known = pl.DataFrame(schema={"rank": pl.Int64, "known": pl.Int64})
    rows = usage.join(windows, on="rank").join(known, on="rank", how="left")
    time = pct / 100 * pl.col("window") - pl.col("known").fill_null(0)
    if most is not None:
        rows = rows.join(most, on="rank", how="left")
        time = pl.min_horizontal(time, pl.col("most").fill_null(0))
    return rows.select("rank", ns=time.clip(0).round().cast(pl.Int64)).drop_nulls("ns")


def measure_not_running(run: Run) -> Blocked | None:
    """In which main threads slept or had no CPU, whatever for; None where nothing was counted."""
    return measure_share(run, 100 - pl.col("running_pct"))


def has_too_many_threads(run: Run) -> bool:
    """Whether PyTorch computes with more threads than its process may use CPUs, on any rank."""
    rows = sum_usage(run)
    return bool((rows.get_column("torch_threads") > rows.get_column("usable_cpus")).any())


def report_blocked(
    rule: Rule,
    lost: Blocked,
    summary: str,
    lines: Sequence[str],
    advice: Advice,
    *,
    gain_ns: int | None = None,
    confidence: str = "high",
    method: str = "bound from what the operating system counted at the ends of steps",
) -> Finding:
    """The finding: the gain is what the rank that lost most lost, unless it is known better."""
    return build_finding(
        rule,
        summary,
        Evidence(lines, where={"ranks": lost.ranks}),
        advice,
        price=(
            make_price(lost.cost_ns, "ns", lost.pct),
            make_price(lost.worst_ns if gain_ns is None else gain_ns, "ns"),
        ),
        severity=grade_severity(lost.pct),
        confidence=confidence,
        method=method,
    )
