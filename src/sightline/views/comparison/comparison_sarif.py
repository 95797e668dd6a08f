"""A comparison as SARIF 2.1.0 (OASIS), for code scanning: the verdict, and what is to blame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sightline.compare.statistics import ALPHA
from sightline.compare.verdict import NOT_COMPARABLE, OPEN, SLOWER
from sightline.core.text import make_printable
from sightline.views.comparison.comparison import explain_pair, format_change, write_verdict

STEP, OPERATION, FINDING = "step-time", "operation-slower", "finding-new"
_RULES = {
    STEP: "The step time of two sides, and whether a difference is real",
    OPERATION: "An operation takes longer than before, and more than runs differ by",
    FINDING: "A problem that the side before does not have",
}
_LEVELS = {SLOWER: "error", NOT_COMPARABLE: "error", OPEN: "warning"}


def write_sarif(data: dict[str, Any]) -> dict[str, Any]:
    """One run of the tool; a result for the verdict, each real growth and each new finding."""
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in _RULES.items()]
    paths = [run["name"] for run in data["sides"]["after"]]
    results = [
        {
            "ruleId": rule,
            "ruleIndex": list(_RULES).index(rule),
            "level": level,
            "kind": "pass" if level == "none" else "fail",
            "message": {"text": make_printable(text)},
            "locations": [
                {"physicalLocation": {"artifactLocation": {"uri": path}}} for path in paths
            ],
            "properties": {"delta_ns": delta_ns},
        }
        for rule, level, text, delta_ns in _list_results(data)
    ]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": {"name": "sightline", "rules": rules}}, "results": results}],
    }


def _list_results(data: dict[str, Any]) -> Iterator[tuple[str, str, str, int]]:
    """Rule, level, text and change in ns of each result."""
    word = data["verdict"]["word"]
    reasons = "; ".join(data["verdict"]["reasons"])
    text = f"{write_verdict(data)} {reasons}".strip()
    yield STEP, _LEVELS.get(word, "none"), text, data["step"]["delta_ns"]
    for row in data["pairs"]:
        rate = row["false_discovery_rate"]
        is_real = rate is not None and rate < ALPHA and row["level"] == "runs"
        if is_real and row["delta_ns"] > 0 and row["part"] != "idle":
            text = f"{row['label']}: {format_change(row['delta_ns'])}"
            if happened := explain_pair(row):
                text += f"; {happened}"
            yield OPERATION, "warning", text, row["delta_ns"]
    for row in data.get("findings") or ():
        if row["status"] == "new":
            text = f"{row['title']} ({row['rule']}): {format_change(row['after_ns'])} of a step"
            yield FINDING, "warning", text, row["after_ns"]
