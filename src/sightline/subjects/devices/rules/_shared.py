"""What the three rules about clocks share: kernels at a low clock of one cause, as one finding."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import average_column, find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.build import MAX_ROWS, NOTABLE_PCT, Advice, Evidence, Loss, make_finding
from sightline.errors import MissingDataError
from sightline.replay.gains import sum_windows
from sightline.replay.replay import scale_ops


def list_slow_kernels(run: Run) -> pl.DataFrame | None:
    """The answer of `slow_clocks`, or None where the clock was not recorded."""
    if not run.rows("device_ops"):
        return None
    try:
        return run.ask("slow_clocks")
    except MissingDataError:
        return None


def find_low_clock(
    run: Run, rule: Rule, what: str, *, cause: str, fix: str, sources: tuple[str, ...]
) -> Iterator[Finding]:
    """At most one finding: kernels that ran slower for this cause. The gain is a replay."""
    found = list_slow_kernels(run)
    if found is None:
        return
    mine = found.filter(pl.col("cause").is_in(rule.causes))
    cost = sum_column(mine, "lost_ns")
    pct = 100 * cost / sum_windows(run)
    if mine.is_empty() or pct < NOTABLE_PCT:
        return
    factors = mine.select(ref_id="device_op_id", factor=pl.col("clock_mhz") / pl.col("best_mhz"))

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        return scale_ops(nodes, factors)

    per_device = mine.group_by("rank", "device_id").agg(pl.col("lost_ns").sum())
    yield make_finding(
        run,
        rule,
        f"{format_pct(pct)} of the window is lost because {what}, which slows kernels down.",
        Loss(cost_ns=cost, bound_ns=find_largest(per_device, "lost_ns"), change=without),
        Evidence(
            [
                f"{format_several(mine.height, 'kernel')} at "
                f"{average_column(mine, 'clock_mhz'):.0f} MHz on average, against "
                f"{average_column(mine, 'best_mhz'):.0f} MHz",
                *_describe_reasons(mine),
            ],
            rows=mine.sort("lost_ns", "device_op_id", descending=[True, False])
            .head(MAX_ROWS)
            .to_dicts(),
            where={
                "ranks": mine.get_column("rank").unique().sort().to_list(),
                "devices": mine.get_column("device_id").unique().sort().to_list(),
            },
        ),
        Advice(
            fix=fix,
            verify="sightline stats slow_clocks AFTER: no kernel of this cause",
            cause=cause,
            sources=sources,
        ),
        confidence="medium",
    )


def _describe_reasons(mine: pl.DataFrame) -> list[str]:
    """The bits that were set, or that none are known."""
    seen = sorted({r for r in mine.get_column("reasons") if r})
    if not seen:
        return ["why is not recorded: the counters hold no clock event reasons"]
    return ["clock event reasons " + ", ".join(f"0x{r:x}" for r in seen)]
