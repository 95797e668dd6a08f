"""Findings as text, lines for editors, Markdown, SARIF and plain data."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sightline.answer.price_words import LABELS, write_price
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from sightline.core.text import make_printable
from sightline.core.units import format_pct
from sightline.diagnosis.build import NOTABLE_PCT
from sightline.timeline.device_use import has_use
from sightline.timeline.host_parts import has_only_host
from sightline.timeline.segments import select_repeating

# TraceLens agent, 2026-08: idle above 15 %, exposed communication and copies above 5 % are flagged.
IDLE_PCT = 15.0
_MOST_PCT = 50.0
SEVERITIES = ("critical", "warning", "info")
_SARIF_PROPERTIES = (
    *("cost_ns", "cost_bytes", "cost_pct", "gain_ns", "gain_bytes", "cost_j", "gain_j"),
    *("gain_pct", "confidence"),
)
# A place in a program, as evidence names it: a file with an ending, and a line of it.
_PLACE = re.compile(r"(?<![\w./-])([\w./~-]*\w\.[A-Za-z]\w{0,4}):([1-9]\d*)(?![\w.:])")
_SARIF_LEVEL = {"critical": "error", "warning": "warning", "info": "note"}


def write_verdict(found: Sequence[Finding], run: Run) -> str:
    """The answer in one sentence: the first problem, or how close to which limit the run is."""
    loud = [f for f in found if not f.abstained and f.severity != "info"]
    if loud:
        return loud[0].summary
    # Of a handful of operations nothing is loud, though all of it may go.
    large = [f for f in found if not f.abstained and f.gain and (f.gain.pct or 0) >= NOTABLE_PCT]
    if large:
        return large[0].summary
    if not run.rows("device_ops"):
        if run.rows("memory_events") or run.rows("memory_segments"):
            return "No findings: nothing stands out in what fills the memory."
        if has_only_host(run):
            largest = run.ask("host_breakdown").row(0, named=True)
            return (
                "No single change of the host gains 5 %: the largest part of the main thread's "
                f"time is {largest['part']} ({format_pct(largest['window_pct'])})."
            )
        if run.rows("jobs"):
            return "No problem takes 5 % of what the jobs were given:  sightline jobs SOURCE"
        if has_use(run):
            return "No findings: nothing stands out in how the GPUs were used."
        return "No findings: the recording has no GPU operations."
    rows = select_repeating(run).ask("breakdown")
    worst = rows.sort("compute_pct").row(0, named=True)
    healthy = (
        worst["idle_pct"] <= IDLE_PCT
        and worst["exposed_comm_pct"] <= NOTABLE_PCT
        and worst["exposed_copy_pct"] <= NOTABLE_PCT
    )
    said = "Healthy" if healthy else "No single change gains 5 %"
    if healthy:
        behind = f"; what is left to gain lies in its kernels{_name_longest(found)}"
    else:
        remarks = any(f.is_remark and not f.abstained for f in found)
        behind = "; see the remarks below" if remarks else ""
    return (
        f"{said}: the GPU computes for {format_pct(worst['compute_pct'])} of the window or more "
        f"(idle {format_pct(worst['idle_pct'])}, exposed communication "
        f"{format_pct(worst['exposed_comm_pct'])}, copies "
        f"{format_pct(worst['exposed_copy_pct'])}){behind}."
    )


def _name_longest(found: Sequence[Finding]) -> str:
    """The kernel in which most of the kernel time is, where a finding says that one has it."""
    told = next((f for f in found if not f.abstained and _is_mostly_one(f)), None)
    name = told.where.get("kernel") if told else None
    return f", most of it in {shorten_kernel_name(str(name))}" if name else ""


def _is_mostly_one(found: Finding) -> bool:
    return found.rule == "dominating-kernel" or found.where.get("kernel_pct", 0.0) > _MOST_PCT


def write_text(found: Sequence[Finding], run: Run, width: int | None = None) -> str:
    """For a terminal: the verdict, then each finding in full; broken at `width` columns if given.

    Without a width every fact is one line, for programs that read lines.
    """
    lines = [write_verdict(found, run)]
    rows = _list_devices(run)
    for number, item in number_findings(found):
        head = f"{number:<3}" if number else "Remark: "
        lines += ["", f"{head}{item.title}  [{item.severity}, {item.rule}]"]
        lines += [f"   {' · '.join(write_price(item.to_dict(), rows))}"]
        lines += [f"   {label:<11}{value}" for label, value in _parts(item)]
    silent = [f for f in found if f.abstained]
    if silent:
        lines += ["", *(f"Not judged: {rules} ({why})" for rules, why in _group_by_reason(silent))]
    whole = [make_printable(line) for line in lines]
    return "\n".join(
        whole if width is None else [p for line in whole for p in _break_lines(line, width)]
    )


def _group_by_reason(silent: Iterable[Finding]) -> list[tuple[str, str]]:
    """Rules that could not look for one reason, as one text, and the reason."""
    rules: dict[str, list[str]] = {}
    for item in silent:
        rules.setdefault(str(item.reason), []).append(item.rule)
    return [(", ".join(names), reason) for reason, names in rules.items()]


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


def write_lines(found: Sequence[Finding], recordings: Sequence[str]) -> str:
    """A line a finding, as compilers write theirs: FILE:LINE: error|warning|note: what [rule].

    The place is the first that the finding names; without one it is the recording's first line.
    """
    lines = []
    for item in found:
        if item.abstained:
            continue
        words = (item.summary, *item.evidence, item.cause or "", item.fix or "")
        place = next((p for text in words for p in _PLACE.finditer(text)), None)
        where = f"{place[1]}:{place[2]}" if place else f"{recordings[0]}:1"
        level = _SARIF_LEVEL[item.severity]
        fix = f" Fix: {item.fix}" if item.fix else ""
        lines.append(f"{where}: {level}: {item.title}: {item.summary}{fix} [{item.rule}]")
    return "\n".join(make_printable(line) for line in lines)


def write_markdown(found: Sequence[Finding], run: Run) -> str:
    """For an issue or a merge request."""
    lines = [f"**{write_verdict(found, run)}**", ""]
    rows = _list_devices(run)
    for number, item in number_findings(found):
        head = f"{number}. " if number else "Remark: "
        price = " · ".join(write_price(item.to_dict(), rows))
        lines += [f"### {head}{item.title} ({item.severity}, {item.rule})", "", price, ""]
        lines += [f"- **{label}** {_escape(value)}" for label, value in _parts(item)]
        lines.append("")
    silent = [f for f in found if f.abstained]
    lines += [f"- not judged: {r}: {_escape(why)}" for r, why in _group_by_reason(silent)]
    return "\n".join(make_printable(line) for line in lines).rstrip()


def _escape(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")


def number_findings(found: Iterable[Finding]) -> Iterator[tuple[int | None, Finding]]:
    """What was judged, in its order, with a number for each but the remarks."""
    numbers = itertools.count(1)
    for item in found:
        if not item.abstained:
            yield None if item.is_remark else next(numbers), item


def _list_devices(run: Run) -> list[dict[str, Any]]:
    return run.ask("breakdown").to_dicts() if run.rows("device_ops") else []


def _parts(item: Finding) -> Iterator[tuple[str, str]]:
    yield "what", item.summary
    for line in item.evidence:
        yield "evidence", line
    for label in ("cause", "fix", "verify", "method"):
        value = getattr(item, label)
        if value:
            yield LABELS.get(label, label).lower(), value
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
    plain = item.to_dict()
    return {
        "ruleId": item.rule,
        "ruleIndex": rules.index(item.rule),
        "level": "none" if item.abstained else _SARIF_LEVEL[item.severity],
        "kind": "notApplicable" if item.abstained else "fail",
        "message": {"text": f"{text}{fix}"},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": path}}} for path in recordings
        ],
        "properties": {name: plain[name] for name in _SARIF_PROPERTIES},
    }
