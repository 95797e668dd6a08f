"""What the rules about engine steps share: the steps, what is lost in each, and the finding.

A loss is a frame with rank, step, cost_ns and gain_ns. All ranks' losses are the cost; the gain is
that of the rank that loses most, as ranks that serve one model wait for each other in each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.build import MAX_ROWS, NOTABLE_PCT, Advice, Evidence, build_finding
from sightline.replay.gains import sum_windows
from sightline.subjects.serving.flags import name_flag
from sightline.timeline.engine_steps import list_engine_steps
from sightline.timeline.host_parts import find_longest_window, has_only_host, sum_host_windows


def list_steps(run: Run) -> pl.DataFrame | None:
    """The rows of `engine_steps`, or None where no engine ran."""
    return run.ask("engine_steps") if list_engine_steps(run).height else None


def measure_windows(run: Run) -> tuple[int, int]:
    """All windows together, and the longest, ns: of devices, else of threads, else of the steps."""
    if run.rows("device_ops"):
        return sum_windows(run), max(find_longest_window(run), 1)
    if has_only_host(run):
        return sum_host_windows(run), max(find_longest_window(run), 1)
    steps = list_engine_steps(run)
    spans = steps.group_by("rank").agg(ns=pl.col("end_ns").max() - pl.col("start_ns").min())
    lengths = spans.get_column("ns").to_list() or [1]
    return max(sum(lengths), 1), max(*lengths, 1)


def report_loss(
    run: Run,
    rule: Rule,
    losses: pl.DataFrame,
    summary: str,
    lines: Sequence[str],
    *,
    verify: str,
    method: str | None,
    confidence: str = "high",
    least_pct: float = NOTABLE_PCT,
) -> Iterator[Finding]:
    """The finding about the steps of `losses`, if it costs enough of the window."""
    every, longest = measure_windows(run)
    cost = int(losses.get_column("cost_ns").sum())
    gain = int(losses.group_by("rank").agg(pl.col("gain_ns").sum())["gain_ns"].max() or 0)  # type: ignore[arg-type]
    cost_pct = 100 * cost / every
    if cost_pct < least_pct:
        return
    flag = name_flag(run, rule.name)
    worst = losses.sort("cost_ns", "step", descending=[True, False]).head(MAX_ROWS)
    yield build_finding(
        rule,
        summary,
        Evidence(
            lines,
            rows=worst.select("rank", "step", "cost_ns").to_dicts(),
            where={"ranks": sorted(losses.get_column("rank").unique())},
        ),
        Advice(fix=flag.fix, verify=verify, sources=(flag.source,)),
        price=(
            Price(cost, "ns", cost_pct),
            Price(min(gain, cost), "ns", min(100 * gain / longest, cost_pct)),
        ),
        confidence=confidence,
        method=method,
    )
