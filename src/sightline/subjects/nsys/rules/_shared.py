"""The rules of `nsys analyze` by their names, as findings: what the vendor lists, in our form."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns
from sightline.diagnosis.build import MAX_ROWS, Advice, Evidence, build_finding, grade_severity
from sightline.replay.gains import sum_windows

SOURCE = "NVIDIA Nsight Systems User Guide: Expert Systems Analysis"


def list_vendor_rows(
    run: Run, rule: Rule, analysis: str, what: str, *, fix: str, lost: pl.Expr | None = None
) -> Iterator[Finding]:
    """One finding of everything that the analysis lists, without a gain: the vendor gives none.

    `lost` is what each row costs in ns (default: its duration). Raises MissingDataError as the
    analysis does.
    """
    if not run.rows("device_ops"):
        return
    rows = run.ask(analysis, rows=0)
    if rows.is_empty():
        return
    each = rows.select(ns=(pl.col("Duration (ns)") if lost is None else lost).cast(pl.Int64))
    cost = int(each.get_column("ns").sum())
    pct = min(100 * cost / sum_windows(run), 100.0)
    shown = rows.head(MAX_ROWS).to_dicts()
    yield build_finding(
        rule,
        f"{what}: {format_count(rows.height)}, {format_ns(cost)} in all.",
        Evidence(
            [_describe_row(row) for row in shown[:3]],
            rows=shown,
            where={"ranks": run.ask("windows").get_column("rank").unique().sort().to_list()},
        ),
        Advice(fix=fix, verify=f"sightline stats {analysis} AFTER: fewer rows", sources=(SOURCE,)),
        price=(make_price(cost, "ns", pct), None),
        title=f"{rule.title} (as nsys analyze)",
        severity=grade_severity(pct),
        confidence="high",
        method="sum over the rows that the vendor's rule lists; they may overlap, and no gain is "
        "computed",
    )


def _describe_row(row: dict[str, object]) -> str:
    """'1.27 ms at 0.3 s: cudaMemcpyAsync_v3020': the row's length, and what names it."""
    length = row["Duration (ns)"]
    words = [format_ns(length if isinstance(length, int) else None)]
    for column in ("API Name", "Src Kind", "Dst Kind", "Memory Kind", "Device ID", "In-Use (%)"):
        value = row.get(column)
        if value is not None:
            text = f"{value:.1f}" if isinstance(value, float) else str(value)
            words.append(text if column == "API Name" else f"{column.lower()} {text}")
    return "  ".join(words)
