"""Which problems are fixed, new or still there, and what fixing them was worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline.compare.sample import Sample


def compare_findings(
    before: Sample,
    after: Sample,
    found: tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]],
    *,
    is_comparable: bool = True,
) -> list[dict[str, Any]]:
    """One row per rule that found something on either side, the largest cost first.

    `found` are both sides' findings as plain data (`dataclasses.asdict`).
    Costs and gains are ns of a step and device. `predicted_ns` is the gain that was foreseen
    before, `realized_ns` what the cost fell by; both are null where one side was not judged, or the
    sides are not comparable: then nothing is fixed, but found on one side.
    """
    sides = [_cost_by_rule(f, s) for f, s in zip(found, (before, after), strict=True)]
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
                "status": _name_status(costs, is_comparable=is_comparable),
                "before_ns": costs[0],
                "after_ns": costs[1],
                "predicted_ns": one["gain_ns"] if one is not None and is_comparable else None,
                "realized_ns": costs[0] - costs[1] if None not in costs and is_comparable else None,
            }
        )
    return sorted(rows, key=lambda r: (-max(r["before_ns"] or 0, r["after_ns"] or 0), r["rule"]))


def _cost_by_rule(findings: Sequence[dict[str, Any]], sample: Sample) -> dict[str, dict[str, Any]]:
    """Costs of a rule's findings, added up; null where it could not judge."""
    found: dict[str, dict[str, Any]] = {}
    steps = max(sample.count // max(sample.devices, 1), 1)
    for row in findings:
        unjudged = {"title": row["title"], "cost_ns": None, "gain_ns": None}
        known = found.setdefault(row["rule"], unjudged)
        if row["abstained"] or row["cost_ns"] is None:
            continue
        known["cost_ns"] = (known["cost_ns"] or 0) + round(row["cost_ns"] / sample.count)
        known["gain_ns"] = (known["gain_ns"] or 0) + round((row["gain_ns"] or 0) / steps)
    return found


def _name_status(costs: Sequence[int | None], *, is_comparable: bool) -> str:
    if costs[1] is None:
        return "not judged after"
    if costs[0] is None:
        return "not judged before"
    if not costs[0]:
        return "new" if is_comparable else "only after"
    if not costs[1]:
        return "fixed" if is_comparable else "only before"
    return "still there" if is_comparable else "on both sides"
