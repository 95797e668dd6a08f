"""What a run offers to the expressions of people's own rules.

A metric is the name of an analysis (its numeric columns, each with the statistics of its rows) or
of a counter (the statistics of its values over time). `run` and `job` hold facts on the whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import polars as pl

from sightline.core import registry
from sightline.core.job_metrics import METRICS, find_job_metric
from sightline.core.model.run import Run
from sightline.diagnosis.custom.forms import OwnRule, load_rules
from sightline.errors import MissingDataError

STATISTICS = (
    "avg",
    "mean",
    "min",
    "max",
    "median",
    "std",
    "sum",
    "count",
    "first",
    "last",
    "data",
    "idle",  # of a job: GPUs or nodes at which it never was above 0
)
LIMITS = ("peak", "normal", "caution", "alert")
# Samples that an expression sees one by one: more are thinned evenly, statistics are of all.
MAX_SAMPLES = 10_000


def make_identifier(name: str) -> str:
    """A metric's or column's name as an expression can write it: 'GPU Power [W]' is gpu_power_w."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def load_checked_rules(paths: list[str]) -> list[OwnRule]:
    """The rules of these files and folders, every name in them known. Raises InputError."""
    found = load_rules(paths)
    for rule in found:
        check_names(rule)
    return found


def check_names(rule: OwnRule) -> None:
    """That an analysis's columns and statistics are real, before anything runs. InputError."""
    known = registry.list_names("analyses")
    for expression in _expressions(rule):
        for name in expression.names:
            first, *rest = name.split(".")
            if first not in rule.metrics:
                continue
            if first in known:
                columns = _columns(first)
                if not rest or rest[0] not in columns:
                    raise expression.at.wrong(
                        f"'{name}' is not a column of the analysis {first}, which has "
                        f"{', '.join(sorted(columns)) or 'no numbers'}",
                    )
                rest = rest[1:]
            _check_statistic(rest, name, expression)


def _check_statistic(rest: list[str], name: str, expression: Any) -> None:
    fine = len(rest) == 1 and rest[0] in STATISTICS
    fine = fine or (len(rest) == 2 and rest[0] == "limits" and rest[1] in LIMITS)
    if not fine:
        raise expression.at.wrong(
            f"'{name}' does not end in a statistic: {', '.join(STATISTICS)}, "
            f"limits.{', limits.'.join(LIMITS)}",
        )


def _expressions(rule: OwnRule) -> Iterable[Any]:
    yield from rule.requirements
    yield from rule.variables.values()
    yield from (e for e in (rule.rule, rule.cost, rule.gain) if e is not None)


def _columns(analysis: str) -> set[str]:
    declared = registry.load("analyses", analysis).ANALYSIS.columns
    return {make_identifier(c.name) for c in declared if c.dtype in (pl.Int64, pl.Float64)}


def read_facts(run: Run, rule: OwnRule) -> dict[str, Any]:
    """The names that a rule's expressions may read; what the recording lacks is left out."""
    facts: dict[str, Any] = {"run": _whole(run), "job": {}}
    length = facts["run"].get("window_ns")
    if length is not None:
        facts["job"]["duration"] = length / 1e9
    for metric in rule.metrics:
        found = _metric(run, metric)
        if found:
            facts[metric] = found
    return facts


def _whole(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = {"recordings": float(len(run.parts))}
    if run.rows("device_ops"):
        windows = run.ask("windows")
        longest = windows.select((pl.col("window_end_ns") - pl.col("window_start_ns")).max()).item()
        found |= {
            "devices": float(windows.height),
            "ranks": float(windows.get_column("rank").n_unique()),
            "window_ns": float(longest),
        }
    return found


def _metric(run: Run, metric: str) -> dict[str, Any]:
    if metric in registry.list_names("analyses"):
        try:
            answer = run.ask(metric)
        except MissingDataError:
            return {}
        return {
            make_identifier(c.name): describe_column(c)
            for c in answer.get_columns()
            if c.dtype in (pl.Int64, pl.Float64)
        }
    if not run.rows("counters"):
        return {}
    counters = run.table("counters").select("metric", "time_ns", "value")
    names = counters.get_column("metric").unique().drop_nulls().to_list()
    mine, per = _find_counters(metric, names)
    values = counters.filter(pl.col("metric").is_in(mine)).sort("time_ns")
    return describe_column(values.get_column("value") / per) if values.height else {}


def _find_counters(metric: str, names: list[str]) -> tuple[list[str], float]:
    """The counters that a rule calls so, and what their values are divided by.

    Rules about jobs call them by their own names (cpu_load, acc_utilization), and count in GB.
    """
    mine = [name for name in names if make_identifier(name) == metric.lower()]
    known = METRICS.get(find_job_metric(metric))
    if mine or known is None:
        return mine, 1.0
    return [name for name in names if make_identifier(name) in known.others], known.per


def describe_column(values: pl.Series) -> dict[str, Any]:
    """What may follow a metric's dot; without any value only the count."""
    known = values.drop_nulls().cast(pl.Float64)
    known = known.filter(known.is_finite())
    if known.is_empty():
        return {"count": 0.0}
    mean: Any = known.mean()
    thin = known.gather_every(max(1, -(-known.len() // MAX_SAMPLES)))
    spread: Any = known.std()
    found = {
        "avg": mean,
        "mean": mean,
        "min": known.min(),
        "max": known.max(),
        "median": known.median(),
        "std": spread or 0.0,
        "sum": known.sum(),
        "count": float(known.len()),
        "first": known[0],
        "last": known[-1],
    }
    return {**found, "data": tuple(thin.to_list())}
