"""What recordings say of the figure that a claim is about: a value, and how far it is sure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.compare.claims import match_names
from sightline.compare.comparison import compare_samples
from sightline.compare.floor import check_floor, read_floor
from sightline.compare.sample import Sample
from sightline.compare.statistics import ALPHA, Floor, guess_floor
from sightline.compare.verdict import FASTER, NOT_COMPARABLE, SLOWER
from sightline.core import registry
from sightline.core.algebra.student import find_quantile
from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.errors import RequestError

METRICS = ("step_ns", "launches", "peak_memory", "kernel:PATTERN")
_PRICES = ("gain_ns", "gain_pct", "cost_ns", "cost_pct")


@dataclass(frozen=True)
class Figure:
    """A figure with what it may be, in `unit`; null where it is not known, with `reasons`.

    `low` and `high` hold it: the 95 % interval of a change, 0 and the bound of a gain. With
    `is_shown` the value itself may be stated: a change that is more than chance, a gain as the
    bound that it is. `details` are the figures that it comes from.
    """

    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    is_shown: bool = True
    reasons: tuple[str, ...] = ()
    details: Mapping[str, Any] | None = None


def measure_change(
    given: Mapping[str, Any], before: Sequence[Sample], after: Sequence[Sample]
) -> Figure:
    """By how much a metric changed between two sides, in % of before, by `compare`'s own test.

    Raises RequestError for a metric that there is not, and what `compare_samples` raises.
    """
    measure = _choose_measure(str(given["metric"]))
    stored = _read_floor(given, [*before, *after])
    data = compare_samples(
        before, after, stored, same_workload=bool(given.get("same_workload", False))
    )
    if data["verdict"]["word"] == NOT_COMPARABLE:
        return Figure(None, "%", reasons=("not comparable: " + data["verdict"]["reasons"][0],))
    return measure(data)


def _read_floor(given: Mapping[str, Any], samples: Sequence[Sample]) -> Floor | None:
    """The floor that a claim names, checked against these runs. Raises InputError."""
    from pathlib import Path

    if not given.get("floor"):
        return None
    stored = read_floor(Path(str(given["floor"])))
    check_floor(stored, list(samples))
    return stored.floor


def _choose_measure(metric: str) -> Callable[[dict[str, Any]], Figure]:
    if metric == "step_ns":
        return _measure_step
    if metric.startswith("kernel:"):
        pattern = metric.removeprefix("kernel:")
        match_names(pattern, ["x"])  # a wrong one is an error before anything is compared
        return lambda data: _measure_kernels(data["pairs"], pattern)
    if metric in METRICS:
        return lambda data: _measure_count(data["metrics"], metric.replace("_", " "))
    raise RequestError(f"there is no metric '{metric[:80]}'", why=f"there are {', '.join(METRICS)}")


def _measure_step(data: dict[str, Any]) -> Figure:
    step, verdict = data["step"], data["verdict"]
    details = {key: step[key] for key in ("before_ns", "after_ns", "level", "p_value")}
    reasons = tuple(verdict["reasons"])
    if step["ratio"] is None:
        return Figure(None, "%", reasons=reasons, details=details)
    low, high = step["low"], step["high"]
    if step["ratio"] == 1 and low is None:
        low = high = 1.0
    if step["level"] == "steps":
        low, high = _widen(step["ratio"], low, high)
    sides = [None if r is None else 100 * (r - 1) for r in (step["ratio"], low, high)]
    is_shown = verdict["word"] in (FASTER, SLOWER)
    return Figure(sides[0], "%", sides[1], sides[2], is_shown, reasons, details)


def _widen(ratio: float, low: float, high: float) -> tuple[float, float]:
    """An interval of two recordings as one of their programs: what runs differ by comes on top.

    By how much is a guess, the larger of the two that `guess_floor` has.
    """
    guess = guess_floor([1.0])
    runs = find_quantile(guess.freedom, 1 - ALPHA / 2) * math.sqrt(2 * guess.variance)
    steps = (math.log(high) - math.log(low)) / 2
    reach = math.hypot(runs, steps)
    return ratio * math.exp(-reach), ratio * math.exp(reach)


def _measure_kernels(pairs: Sequence[dict[str, Any]], pattern: str) -> Figure:
    """The time of all kernels of a pattern together.

    The interval is the sum of theirs, which holds the sum at least as surely as each holds its own,
    as the deviation of a sum is not larger than the sum of deviations.
    """
    busy = [row for row in pairs if row["part"] != "idle"]
    named = match_names(pattern, (n for row in busy for n in _list_names(row)))
    mine = [row for row in busy if not named.isdisjoint(_list_names(row))]
    before, after = (sum(row[key] for row in mine) for key in ("before_ns", "after_ns"))
    details = {"before_ns": before, "after_ns": after, "pairs": len(mine)}
    if not before:
        why = "no kernel of this name ran before" if mine else "no kernel has this name"
        return Figure(None, "%", reasons=(why,), details=details)
    value = 100 * (after - before) / before
    bounds = [_bound(row) for row in mine]
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds):
        why = "one run of each side does not show how much a kernel's time varies between runs"
        return Figure(value, "%", is_shown=False, reasons=(why,), details=details)
    low, high = (100 * (sum(b[side] for b in known) - before) / before for side in (0, 1))
    return Figure(value, "%", low, high, low > 0 or high < 0, details=details)


def _list_names(row: dict[str, Any]) -> list[str]:
    return [*row["before_names"], *row["after_names"]]


def _bound(row: dict[str, Any]) -> tuple[float, float] | None:
    """What a pair's time after may be, ns: its interval over runs, or itself where it is new."""
    if row["kind"] in ("appeared", "vanished") or row["before_ns"] == row["after_ns"]:
        return row["after_ns"], row["after_ns"]
    if row["level"] != "runs" or row["low"] is None:
        return None
    return row["before_ns"] * row["low"], row["before_ns"] * row["high"]


def _measure_count(metrics: Sequence[dict[str, Any]], name: str) -> Figure:
    """What is counted, and not timed: no interval."""
    row = next((m for m in metrics if m["metric"] == name), None)
    if row is None or not row["before"]:
        return Figure(None, "%", reasons=(f"a side does not say its {name}",))
    value = 100 * (row["after"] - row["before"]) / row["before"]
    return Figure(value, "%", value, value, details=row)


def measure_finding(given: Mapping[str, Any], findings: Sequence[Finding]) -> Figure:
    """What a finding costs or gains, or with no column whether it is there: 1 or 0.

    Of several by one rule, it is the first, which gains most. Raises RequestError.
    """
    name = str(given["finding"])
    rule = registry.load("rules", name.replace("-", "_")).RULE.name
    column = given.get("column")
    if column is not None and column not in _PRICES:
        raise RequestError(
            f"a finding has no figure '{column[:80]}'", why=f"it has {', '.join(_PRICES)}"
        )
    mine = [f for f in findings if f.rule == rule]
    judged = [f for f in mine if not f.abstained]
    if mine and not judged:
        return Figure(None, "", reasons=(mine[0].reason or "the rule could not judge",))
    if column is None:
        there = float(bool(judged))
        return Figure(there, "", there, there)
    unit = "ns" if column.endswith("_ns") else "%"
    if not judged:
        return Figure(0.0, unit, 0.0, 0.0, reasons=("no such problem was found",))
    first = judged[0]
    value = getattr(first, column)
    if value is None:
        return Figure(None, unit, reasons=("the finding states no such figure",))
    details = {"title": first.title, "confidence": first.confidence, "method": first.method}
    if not column.startswith("gain"):
        return Figure(float(value), unit, float(value), float(value), details=details)
    why = ("a gain is the most that fixing the problem could save",)
    return Figure(float(value), unit, 0.0, float(value), reasons=why, details=details)


def measure_kernels(given: Mapping[str, Any], run: Run) -> Figure:
    """A column of the analysis `kernels`, added up over the kernels of a pattern."""
    column = str(given.get("column", "window_pct"))
    summed = ("instances", "total_ns", "window_pct", "kernel_pct")
    if column not in summed:
        raise RequestError(
            f"'{column[:80]}' of several kernels has no sum", why=f"{', '.join(summed)} have"
        )
    table = run.ask("kernels").filter(pl.col("name").is_not_null())
    named = match_names(str(given["kernel"]), table.get_column("name"))
    rows = table.filter(pl.col("name").is_in(list(named))).to_dicts()
    if not rows:
        return Figure(None, "", reasons=("no kernel has this name",))
    value = math.fsum(row[column] for row in rows)
    unit = {"instances": "", "total_ns": "ns"}.get(column, "%")
    return Figure(value, unit, value, value, details={"kernels": len(rows)})


def measure_analysis(given: Mapping[str, Any], run: Run) -> Figure:
    """A column of an analysis, in the one row that `where` names. Raises RequestError."""
    declared = registry.load("analyses", str(given["analysis"])).ANALYSIS
    units = {c.name: c.unit or "" for c in declared.columns}
    where = given.get("where", {})
    for name in (given["column"], *where):
        if name not in units:
            raise RequestError(
                f"{declared.name} has no column '{name[:80]}'", why=f"it has {', '.join(units)}"
            )
    rows = [
        row
        for row in run.ask(declared.name).to_dicts()
        if all(row[name] == value for name, value in where.items())
    ]
    return _take_one(rows, str(given["column"]), units[given["column"]], "add to 'where'")


def measure_query(answer: pl.DataFrame) -> Figure:
    """The one number that a query answers. Raises RequestError where it is not a single number."""
    if answer.width != 1:
        raise RequestError(
            f"the query answers {answer.width} columns", why="a claim is about one number"
        )
    return _take_one(answer.to_dicts(), answer.columns[0], "", "aggregate, or add LIMIT 1")


def _take_one(rows: Sequence[Mapping[str, Any]], column: str, unit: str, remedy: str) -> Figure:
    if not rows:
        return Figure(None, unit, reasons=("there is no such row",))
    if len(rows) > 1:
        raise RequestError(
            f"{format_several(len(rows), 'row')} match, and a claim is about one number",
            hint=remedy,
        )
    value = rows[0][column]
    if value is None:
        return Figure(None, unit, reasons=("the recording does not say it",))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RequestError(f"'{column[:80]}' is not a number")
    return Figure(float(value), unit, float(value), float(value))
