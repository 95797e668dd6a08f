"""The window without what a finding names, as the report says it: one question has one answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from sightline.core import registry
from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from sightline.core.registry import OF_WINDOW
from sightline.diagnosis.price import share_of
from sightline.errors import RequestError
from sightline.timeline.host_parts import find_longest_window
from sightline.timeline.segments import select_repeating

# Shares of two windows that differ by less are of one, which is rounded (ours).
_SAME_PCT = 0.01
_IDLE = "idle:"


def names_finding(scale: Sequence[str], remove: Sequence[str]) -> bool:
    """Whether a finding is to be removed, or idle time by its cause, and nothing else is asked."""
    if len(remove) != 1 or scale:
        return False
    (word,) = remove
    return word.startswith(_IDLE) or word.replace("-", "_") in registry.list_names("rules")


def select_findings(run: Run, findings: Sequence[Finding], word: str) -> list[Finding]:
    """The findings of the rule that a word names. Raises RequestError where there is none."""
    tag = _find_rule(run, word)
    found = [f for f in findings if not f.abstained]
    mine = [f for f in found if f.rule == tag]
    if not mine:
        known = ", ".join(dict.fromkeys(f.rule for f in found))
        raise RequestError(
            f"{tag} is not a finding of this recording",
            why=f"it has {known}" if known else "it has none",
        )
    return mine


def describe_findings(run: Run, findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Each as data: what it could save, by which method, and the window with and without it."""
    return [
        {
            "rule": f.rule,
            "title": f.title,
            "saved": f.gain and f.gain._asdict(),
            "method": f.method,
            **describe_window(run, f),
        }
        for f in findings
    ]


def describe_without(run: Run, findings: Sequence[Finding], word: str) -> dict[str, Any]:
    """As `what_if.describe_change`, with the rows of the findings instead of selectors.

    Where several findings are of one rule, the window is that of the largest gain. A finding that
    has no gain in time saves 0 ns of what is known: `new_window_ns` is then null.
    """
    rows = describe_findings(run, select_findings(run, findings, word))
    timed = [row for row in rows if "window_ns" in row]
    most = max(timed, key=lambda row: row["window_ns"] - row["new_window_ns"], default={})
    before, after = most.get("window_ns"), most.get("new_window_ns")
    saved = 0 if before is None else before - after
    return {
        "window_ns": before,
        "new_window_ns": after,
        "saved_ns": saved,
        "saved_pct": 100 * saved / max(before or 1, 1),
        "most_saved_ns": saved,
        "changes": [],
        "findings": rows,
    }


def describe_window(run: Run, finding: Finding) -> dict[str, int]:
    """The window now, and without what the finding could save, ns; empty where it is of none.

    Where the recorder took much of it, both are without the recorder, as gains are.
    """
    gain = finding.gain
    if gain is None or gain.unit != "ns" or not gain.pct or share_of(finding.rule) != OF_WINDOW:
        return {}
    window = find_longest_window(select_repeating(run))
    if window is None or abs(100 * gain.amount / window - gain.pct) > _SAME_PCT:
        window = round(100 * gain.amount / gain.pct)
    return {"window_ns": window, "new_window_ns": max(window - round(gain.amount), 0)}


def _find_rule(run: Run, word: str) -> str:
    """The rule of that name, or the one that speaks for most of the idle time of that cause."""
    if not word.startswith(_IDLE):
        return str(registry.load("rules", word.replace("-", "_")).RULE.name)
    parts = run.ask("idle_rules")
    mine = parts.filter(pl.col("cause") == word.removeprefix(_IDLE))
    if mine.is_empty():
        known = parts.get_column("cause").unique().sort().to_list()
        raise RequestError(
            f"there is no idle time called '{word.removeprefix(_IDLE)}'",
            why=f"there is {', '.join(known)}",
        )
    sums = mine.group_by("rule").agg(pl.col("duration_ns").sum()).sort("duration_ns", "rule")
    cause = sums.item(-1, "rule")
    rules = (module.RULE for _, module in registry.load_members("rules"))
    return str(next((rule.name for rule in rules if cause in rule.causes), cause))
