"""What the rules about programs without a device share: the main threads' time, and findings.

A main thread does one thing after the other, so that what it no longer does shortens its window by
as much: the time of the slowest rank's thread bounds the gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns
from sightline.diagnosis.build import (
    MAX_ROWS,
    Advice,
    Evidence,
    build_finding,
    grade_severity,
)
from sightline.subjects.host.rules._there import There, find_there
from sightline.timeline.host_parts import list_segments, list_windows, sum_host_windows

# TraceLens agent, 2026-08: kernels under 10 µs are short; so much a call from Python takes itself.
SHORT_NS = 10_000


@dataclass(frozen=True)
class Share:
    """Segments of main threads (rows of `list_segments`), and how much of the windows they are.

    `pct` is of all windows, `worst_ns` the time of the rank that has most of it: of its window that
    share which these segments have of an undisturbed one, without the recording's own work.
    `there` are the ranks that have much of it, and its share of their windows.
    """

    segments: pl.DataFrame
    cost_ns: int
    worst_ns: int
    pct: float
    there: There

    @property
    def where(self) -> dict[str, Any]:
        """The ranks that have much of what the worst one has, and the longest as time ranges."""
        spans = self.segments.sort("own_ns", "start_ns", descending=[True, False]).head(MAX_ROWS)
        return {
            "ranks": self.there.ranks,
            "time_ranges": spans.select("start_ns", "end_ns").rows(),
        }


def take_share(run: Run, segments: pl.DataFrame) -> Share:
    """How much of the windows these segments are."""
    cost = sum_column(segments, "own_ns")
    pct = 100 * cost / sum_host_windows(run)
    there = find_there(run, segments.group_by("rank").agg(ns=pl.col("own_ns").sum()))
    return Share(segments, cost, _find_worst(run, segments), pct, there)


def _find_worst(run: Run, segments: pl.DataFrame) -> int:
    all_of = (
        list_segments(run)
        .group_by("rank")
        .agg(window=pl.col("own_ns").sum(), bare=pl.col("undisturbed_ns").sum())
    )
    each = segments.group_by("rank").agg(pl.col("own_ns").sum(), pl.col("undisturbed_ns").sum())
    part = pl.col("undisturbed_ns") / pl.col("bare") * pl.col("window")
    gains = each.join(all_of, on="rank").select(
        ns=pl.min_horizontal(part.fill_nan(0).floor().cast(pl.Int64), "own_ns")
    )
    return find_largest(gains, "ns")


def take_part(run: Run, *parts: str) -> Share:
    """How much of the windows lies in these parts."""
    return take_share(run, list_segments(run).filter(pl.col("part").is_in(list(parts))))


def count_steps(run: Run) -> int:
    """Marked steps of all ranks, and 0 where none are marked."""
    return sum_column(list_windows(run), "steps")


def list_names(segments: pl.DataFrame, most: int = 3) -> list[str]:
    """Lines such as `38.1 ms in collate (data.py:12)`: ranges by their own time, longest first."""
    # CPython prints where an object lies, which tells nobody anything.
    plain = pl.col("name").str.replace_all(r"( of type)?( object)? at 0x[0-9a-fA-F]+", "")
    named = segments.filter(pl.col("name").is_not_null()).with_columns(plain)
    each = named.group_by("name").agg(ns=pl.col("own_ns").sum(), n=pl.col("host_op_id").n_unique())
    top = each.sort("ns", "name", descending=[True, False]).head(most)
    return [f"{format_ns(ns)} in {name}, {format_count(n)} ×" for name, ns, n in top.rows()]


def report_share(
    rule: Rule,
    share: Share,
    summary: str,
    lines: Sequence[str],
    advice: Advice,
    *,
    gain_ns: int | None = None,
    confidence: str = "high",
    late_ranks: list[int] | None = None,
) -> Finding:
    """The finding: the gain is at most what the rank that lost most lost.

    `late_ranks` are those that the others wait for, of a finding that is about that.
    """
    gain = share.worst_ns if gain_ns is None else min(gain_ns, share.worst_ns)
    return build_finding(
        rule,
        summary,
        Evidence(
            lines, where=share.where | ({} if late_ranks is None else {"late_ranks": late_ranks})
        ),
        advice,
        price=(make_price(share.cost_ns, "ns", share.pct), make_price(gain, "ns")),
        severity=grade_severity(share.pct),
        confidence=confidence,
        method="bound from the main thread's own time",
    )
