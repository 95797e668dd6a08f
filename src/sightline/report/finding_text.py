"""Findings as text, Markdown, SARIF and plain data."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from sightline.model.declare import Finding
from sightline.model.run import Run
from sightline.registry import OF_KERNELS
from sightline.rules.finding import NOTABLE_PCT
from sightline.rules.ranking import share_of as share_of_rule
from sightline.text import make_printable
from sightline.units import format_ns, format_pct

# TraceLens agent, 2026-08: idle above 15 %, exposed communication and copies above 5 % are flagged.
IDLE_PCT = 15.0
SEVERITIES = ("critical", "warning", "info")
_SARIF_LEVEL = {"critical": "error", "warning": "warning", "info": "note"}


def to_plain_data(found: Finding) -> dict[str, Any]:
    """A finding as JSON's types."""
    return asdict(found)


def write_verdict(found: Sequence[Finding], run: Run) -> str:
    """The answer in one sentence: the first problem, or how close to which limit the run is."""
    loud = [f for f in found if not f.abstained and f.severity != "info"]
    if loud:
        return loud[0].summary
    if not run.rows("device_ops"):
        return "No finding: the recording has no GPU operations to judge."
    rows = run.ask("breakdown")
    worst = rows.sort("compute_pct").row(0, named=True)
    healthy = (
        worst["idle_pct"] <= IDLE_PCT
        and worst["exposed_comm_pct"] <= NOTABLE_PCT
        and worst["exposed_copy_pct"] <= NOTABLE_PCT
    )
    said = "Healthy" if healthy else "No single change gains 5 %"
    behind = "what limits it is the kernels themselves" if healthy else "see the notes below"
    return (
        f"{said}: the GPU computes for {format_pct(worst['compute_pct'])} of the window or more "
        f"(idle {format_pct(worst['idle_pct'])}, exposed communication "
        f"{format_pct(worst['exposed_comm_pct'])}, copies "
        f"{format_pct(worst['exposed_copy_pct'])}); {behind}."
    )


def share_of(rule: str, has_timeline: bool) -> str:
    """What a finding's cost is a share of: what a kernel profiler timed is no program's window."""
    return share_of_rule(rule) if has_timeline else OF_KERNELS


def write_text(found: Sequence[Finding], run: Run, width: int | None = None) -> str:
    """For a terminal: the verdict, then each finding in full; broken at `width` columns if given.

    Without a width every fact is one line, for programs that read lines.
    """
    lines = [write_verdict(found, run)]
    timed = bool(run.rows("device_ops"))
    judged = [f for f in found if not f.abstained]
    for number, item in enumerate(judged, 1):
        lines += ["", f"{number}  {item.title}  [{item.severity}]  {_price(item, timed)}"]
        lines += [f"   {label:<11}{value}" for label, value in _parts(item)]
    silent = [f for f in found if f.abstained]
    if silent:
        lines += ["", *(f"Not judged: {f.rule} ({f.reason})" for f in silent)]
    whole = [make_printable(line) for line in lines]
    return "\n".join(
        whole if width is None else [p for line in whole for p in _break_lines(line, width)]
    )


def _break_lines(line: str, width: int) -> list[str]:
    """A line in pieces, the later ones indented as far as what they continue."""
    indent = " " * (14 if line.startswith("   ") else 3)
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    ) or [""]


def write_markdown(found: Sequence[Finding], run: Run) -> str:
    """For an issue or a merge request."""
    lines = [f"**{write_verdict(found, run)}**", ""]
    timed = bool(run.rows("device_ops"))
    for number, item in enumerate((f for f in found if not f.abstained), 1):
        lines += [f"### {number}. {item.title} ({item.severity})", "", _price(item, timed), ""]
        lines += [f"- **{label}** {_escape(value)}" for label, value in _parts(item)]
        lines.append("")
    silent = [f for f in found if f.abstained]
    lines += [f"- not judged: {f.rule}: {_escape(str(f.reason))}" for f in silent]
    return "\n".join(make_printable(line) for line in lines).rstrip()


def _escape(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")


def _price(item: Finding, has_timeline: bool) -> str:
    words = []
    if item.gain_ns is not None:
        words.append(f"gain up to {format_ns(item.gain_ns)}")
    if item.cost_ns is not None and item.cost_pct is not None:
        share = f"{format_pct(item.cost_pct)} of {share_of(item.rule, has_timeline)}"
        words.append(f"costs {format_ns(item.cost_ns)}, {share}")
    return "; ".join([*words, f"confidence {item.confidence}"])


def _parts(item: Finding) -> Iterator[tuple[str, str]]:
    yield "what", item.summary
    for line in item.evidence:
        yield "evidence", line
    for label in ("cause", "fix", "verify", "method"):
        value = getattr(item, label)
        if value:
            yield label, value
    for line in item.limits:
        yield "limited by", line
    if item.sources:
        yield "sources", "; ".join(item.sources)


def write_sarif(found: Sequence[Finding], recordings: Sequence[str]) -> dict[str, Any]:
    """SARIF 2.1.0 (OASIS): one run of the tool, one result a finding."""
    rules = sorted({f.rule for f in found})
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "sightline", "rules": [{"id": r} for r in rules]}},
                "results": [_result(f, rules, recordings) for f in found],
            }
        ],
    }


def _result(item: Finding, rules: list[str], recordings: Sequence[str]) -> dict[str, Any]:
    text = item.reason if item.abstained else item.summary
    fix = f" Fix: {item.fix}" if item.fix else ""
    return {
        "ruleId": item.rule,
        "ruleIndex": rules.index(item.rule),
        "level": "none" if item.abstained else _SARIF_LEVEL[item.severity],
        "kind": "notApplicable" if item.abstained else "fail",
        "message": {"text": f"{text}{fix}"},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": path}}} for path in recordings
        ],
        "properties": {
            "cost_ns": item.cost_ns,
            "cost_pct": item.cost_pct,
            "gain_ns": item.gain_ns,
            "confidence": item.confidence,
        },
    }
