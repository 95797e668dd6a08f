"""Which problems are fixed, new or still there, and what fixing them was worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline.compare.sample import Sample
from sightline.model.declare import Finding
from sightline.rules.diagnose import diagnose_run


def compare_findings(before: Sample, after: Sample) -> list[dict[str, Any]]:
    """One row per rule that found something on either side, the largest cost first.

    Costs and gains are ns of a step and device. `predicted_ns` is the gain that was foreseen
    before, `realised_ns` what the cost fell by; both are null where one side was not judged.
    """
    sides = [_cost_by_rule(diagnose_run(s.run), s) for s in (before, after)]
    rows = []
    for rule in dict.fromkeys([*sides[0], *sides[1]]):
        one, other = sides[0].get(rule), sides[1].get(rule)
        known = one or other
        assert known is not None
        if not any(side is not None and side["cost_ns"] is not None for side in (one, other)):
            continue
        costs = [0 if side is None else side["cost_ns"] for side in (one, other)]
        rows.append(
            {
                "rule": rule,
                "title": known["title"],
                "status": _name_status(costs),
                "before_ns": costs[0],
                "after_ns": costs[1],
                "predicted_ns": one["gain_ns"] if one is not None else None,
                "realised_ns": None if None in costs else costs[0] - costs[1],
            }
        )
    return sorted(rows, key=lambda r: (-max(r["before_ns"] or 0, r["after_ns"] or 0), r["rule"]))


def _cost_by_rule(findings: Sequence[Finding], sample: Sample) -> dict[str, dict[str, Any]]:
    """Costs of a rule's findings, added up; null where it could not judge."""
    found: dict[str, dict[str, Any]] = {}
    steps = max(sample.count // max(sample.devices, 1), 1)
    for finding in findings:
        known = found.setdefault(
            finding.rule, {"title": finding.title, "cost_ns": None, "gain_ns": None}
        )
        if finding.abstained or finding.cost_ns is None:
            continue
        known["cost_ns"] = (known["cost_ns"] or 0) + round(finding.cost_ns / sample.count)
        known["gain_ns"] = (known["gain_ns"] or 0) + round((finding.gain_ns or 0) / steps)
    return found


def _name_status(costs: Sequence[int | None]) -> str:
    if costs[1] is None:
        return "not judged after"
    if costs[0] is None:
        return "not judged before"
    if not costs[0]:
        return "new"
    return "fixed" if not costs[1] else "still there"
