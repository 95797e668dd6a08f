"""How a rule says what it found: the finding with its gain replayed, or that it could not look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.timeline.gains import Change, gain, window_ns
from sightline.units import format_ns

# A problem is worth a word above 5 % of the window (TraceLens agent, 2026-08: copies and exposed
# communication are flagged above 5 % of the time), and critical above 30 % (XProf: collectives,
# transfers and shuffles above 30 % of the step bound it).
NOTABLE_PCT, CRITICAL_PCT = 5.0, 30.0

MAX_ROWS = 5  # pieces of evidence that a finding carries; all are in the analyses


def severity(pct: float) -> str:
    """How loud a finding is, by its share of the window."""
    if pct >= CRITICAL_PCT:
        return "critical"
    return "warning" if pct >= NOTABLE_PCT else "info"


def finding(
    run: Run,
    rule: Rule,
    summary: str,
    *,
    cost_ns: int,
    change: Change | None,
    bound_ns: int,
    evidence: Sequence[str],
    rows: Sequence[dict[str, Any]] = (),
    where: dict[str, Any] | None = None,
    cause: str | None = None,
    fix: str,
    verify: str,
    sources: Sequence[str] = (),
    confidence: str = "high",
    title: str | None = None,
) -> Finding:
    """A finding with its gain replayed; `bound_ns` stands for it where nothing can be replayed.

    The severity follows the gain, not the cost: what shortens nothing when it is gone is a note.
    Only what costs over CRITICAL_PCT stays a warning: something else limits as much behind it.
    """
    pct = 100 * cost_ns / window_ns(run)
    method = "bound from the timeline: the lost time of the slowest device"
    ns = bound_ns
    if change is not None:
        result = gain(run, change)
        ns, method = result.ns, "replay of the dependency graph without it"
    lines = list(evidence)
    if change is not None and 4 * ns < bound_ns and pct >= NOTABLE_PCT:
        lines.append(
            f"gone alone it gains only {format_ns(ns)} of {format_ns(bound_ns)}: the next limit "
            "(sightline critical-path) is close behind"
        )
    longest = run.ask("breakdown").get_column("window_ns").max()
    share = 100 * ns / max(longest, 1) if isinstance(longest, int) else 0.0
    return Finding(
        rule=rule.name,
        title=title or rule.name,
        severity="warning" if share < NOTABLE_PCT and pct >= CRITICAL_PCT else severity(share),
        summary=summary,
        cost_ns=cost_ns,
        cost_pct=min(pct, 100.0),
        gain_ns=ns,
        confidence=confidence,
        evidence=tuple(lines),
        where=where or {},
        fix=fix,
        verify=verify,
        cause=cause,
        method=method,
        rows=tuple(rows),
        sources=tuple(sources),
    )


def abstain(rule: Rule, reason: str) -> Finding:
    """'Could not look', which is another answer than 'no problem'."""
    return Finding(rule.name, rule.title, "info", "not judged", abstained=True, reason=reason)
