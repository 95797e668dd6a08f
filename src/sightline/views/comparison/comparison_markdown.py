"""A comparison as Markdown, for a pull request: no picture, no click needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sightline.core.text import fit_text
from sightline.core.units import format_ns
from sightline.views.comparison.comparison import (
    PART_LABELS,
    WORTH,
    describe_sides,
    explain_equal_clock,
    explain_pair,
    explain_shift,
    format_change,
    format_change_pct,
    format_cost,
    format_metric,
    grade_certainty,
    list_host_changes,
    write_verdict,
)
from sightline.views.markdown import escape_text, write_row

TOP_PAIRS = 15
NAME_WIDTH = 80


def write_markdown(data: dict[str, Any]) -> str:
    """The whole page."""
    first, second = describe_sides(data)
    clock = explain_equal_clock(data)
    blocks = [
        [f"## {escape_text(write_verdict(data))}"],
        [f"- {escape_text(reason)}" for reason in data["verdict"]["reasons"]],
        [escape_text(clock)] if clock else [],
        [escape_text(first), "", escape_text(second)],
        list(_waterfall(data)),
        list(_pairs(data)),
        [f"- {escape_text(explain_shift(shift))}" for shift in data["shifts"]],
        list(_host(data)),
        list(_findings(data)),
        list(_metrics(data)),
        [f"- limits: {escape_text(c['text'])}" for c in data["checks"] if c["effect"] == "limits"],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _waterfall(data: dict[str, Any]) -> Iterator[str]:
    step = data["step"]
    yield write_row(["", "before", "after", "change", "of the step"])
    yield write_row(["---", "---:", "---:", "---:", "---:"])
    rows = [("**step**", step), *((PART_LABELS[r["part"]], r) for r in data["waterfall"])]
    for label, row in rows:
        pct = 100 * row["delta_ns"] / step["before_ns"] if step["before_ns"] else None
        amounts = [format_ns(row[k]) for k in ("before_ns", "after_ns")]
        yield write_row([label, *amounts, format_change(row["delta_ns"]), format_change_pct(pct)])


def _pairs(data: dict[str, Any]) -> Iterator[str]:
    least = WORTH * data["step"]["before_ns"]
    rows = [p for p in data["pairs"] if abs(p["delta_ns"]) >= least]
    if not rows:
        return
    yield write_row(["change", "operation", "what happened", "match", "sure"])
    yield write_row(["---:", "---", "---", "---", "---"])
    for row in rows[:TOP_PAIRS]:
        what = "idle time" if row["part"] == "idle" else explain_pair(row)
        yield write_row(
            [
                format_change(row["delta_ns"]),
                escape_text(fit_text(row["label"], NAME_WIDTH)),
                escape_text(fit_text(what, 2 * NAME_WIDTH)),
                row["grade"],
                grade_certainty(row),
            ]
        )
    if len(rows) > TOP_PAIRS:
        yield ""
        yield f"{len(rows) - TOP_PAIRS} more: `sightline compare --json`"


def _host(data: dict[str, Any]) -> Iterator[str]:
    rows = list_host_changes(data)
    if not rows:
        return
    yield write_row(["on the host, per step", "before", "after", "change"])
    yield write_row(["---", "---:", "---:", "---:"])
    for row in rows[:TOP_PAIRS]:
        name = escape_text(fit_text(row["name"], NAME_WIDTH))
        amounts = [format_ns(row["before_ns"]), format_ns(row["after_ns"])]
        yield write_row([name, *amounts, format_change(row["delta_ns"])])


def _findings(data: dict[str, Any]) -> Iterator[str]:
    rows = data.get("findings") or []
    if not rows:
        return
    yield write_row(["finding, per step", "", "before", "after", "foreseen gain", "cost fell by"])
    yield write_row(["---", "---", "---:", "---:", "---:", "---:"])
    for row in rows:
        costs = [format_cost(row, side) for side in ("before", "after")]
        gains = [format_ns(row[k]) for k in ("predicted_ns", "realized_ns")]
        yield write_row([escape_text(row["title"]), row["status"], *costs, *gains])


def _metrics(data: dict[str, Any]) -> Iterator[str]:
    for row in data["metrics"]:
        one, other = (format_metric(row[k], row["unit"]) for k in ("before", "after"))
        if one != other:
            yield f"- {row['metric']}: {one} → {other}"
