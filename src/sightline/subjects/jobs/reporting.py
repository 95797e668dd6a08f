"""Findings about jobs: one of each rule over all jobs that it speaks of, with what they cost.

GPU time and core time are different wholes: jobs with GPUs are priced in GPU time, those without
in core time, and each kind that a rule finds has a finding of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.diagnosis.build import (
    MAX_ROWS,
    Advice,
    Evidence,
    abstain,
    build_finding,
    grade_severity,
)

_HOUR_NS = 3600 * 10**9


def report_jobs(run: Run, rule: Rule) -> Iterator[Finding]:
    """The findings of a rule, or one abstention where it could judge no job at all."""
    if not run.rows("jobs"):
        return
    said = run.ask("job_problems").filter(pl.col("rule") == rule.name)
    found = said.filter("judged")
    if found.is_empty():
        if said.height:
            reason, jobs = said.item(0, "text"), format_several(said.height, "job")
            yield abstain(rule, f"of {jobs} it could not be said: {reason}")
        return
    use = run.ask("job_use")
    given = found.join(use.select("job_row_id", "gpus", "user"), on="job_row_id")
    for noun, column, is_kind in (
        ("GPU", "gpu_hours", pl.col("gpus").fill_null(0) > 0),
        ("core", "core_hours", pl.col("gpus").fill_null(0) == 0),
    ):
        own = given.filter(is_kind).sort(column, descending=True, maintain_order=True)
        if own.height:
            whole = float(use.filter(is_kind).get_column(column).sum())
            yield _make_finding(rule, own, noun, column, whole)


def _make_finding(rule: Rule, own: pl.DataFrame, noun: str, column: str, whole: float) -> Finding:
    hours = float(own.get_column(column).sum())
    pct = 100 * hours / whole if whole else 0.0
    jobs = format_several(own.height, "job")
    price = Price(round(hours * _HOUR_NS), "ns", pct)
    worst = own.row(0, named=True)
    energy = own.get_column("energy_j").drop_nulls()
    kwh = f", {float(energy.sum()) / 3.6e6:,.1f} kWh" if energy.len() else ""
    cost = f"{hours:,.1f} {noun} hours{kwh}" if hours else f"no {noun} hours by itself"
    lines = [
        f"job {row['job_id']}: {row['text']}"
        + (f" ({row[column]:,.1f} {noun} hours)" if row[column] else "")
        for row in own.head(MAX_ROWS).iter_rows(named=True)
    ]
    return build_finding(
        rule,
        f"{jobs}: {cost}. {worst['text']} (job {worst['job_id']}).",
        Evidence(
            lines,
            rows=own.head(MAX_ROWS).select("job_id", "lost_pct", column).to_dicts(),
            where={"jobs": own.head(20).get_column("job_id").to_list()},
        ),
        Advice(
            fix=worst["fix"],
            verify=f"sightline job {worst['job_id']} SOURCE  of the next run of it",
        ),
        price=(price, price) if hours else (None, None),
        severity=grade_severity(pct) if hours else "info",
        confidence="medium",
        method="the job's own share of what it was given, over its whole length",
    )
