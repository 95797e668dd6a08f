"""The answer first: one sentence, the findings, where the time went, what limits the answer."""

from __future__ import annotations

import shlex
from functools import partial
from typing import Any

import polars as pl

from sightline.answer.answer import MAIN_THREAD, Answer
from sightline.answer.price_words import label_device, name_whole
from sightline.answer.summary import TOP_KERNELS
from sightline.core import registry
from sightline.core.model.columns import duration, number, pct, text
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel
from sightline.core.text import make_printable
from sightline.core.units import format_note
from sightline.views.html.evidence import measure_spark
from sightline.views.html.view import PageView
from sightline.views.terminal.screen import name_functions

_PARTS = (
    text("part", "part of its time"),
    pct("window_pct", "share of the window"),
    duration("own_ns", "time"),
)
PANEL = Panel("summary", "Summary", 0, needs_findings=True)


def data(view: PageView) -> list[Block]:
    """The headline, cards of findings, bars per device, limits."""
    report = view.answer
    found = [blocks.make_text(report.headline, "lead")]
    if view.judged or view.has_device or report.profiled_kernels:
        found.append({"kind": "findings", "cards": _cards(view)})
    if report.main_parts:
        found += _main_thread(report)
    if report.ops:
        found.append(_operators(view))
    if report.functions:
        found.append(_functions(report.functions))
    if view.has_device:
        frame = view.run.ask("breakdown")
        labels = [label_device(row, report.breakdown) for row in report.breakdown]
        found.append(
            blocks.make_shares(
                "Where the time went", frame, labels, whole="window_ns", same_scale=False
            )
        )
    found[1:1] = [blocks.make_text(note) for note in report.notes]
    limits = [_limit(row) for row in report.limits]
    limits += [
        {
            "severity": "info",
            "text": f"Not judged: {make_printable(f['rule'])}.",
            "remedy": make_printable(f["reason"] or ""),
        }
        for f in report.not_judged
    ]
    found.append({"kind": "limits", "title": "What limits the conclusions", "rows": limits})
    return found


def _main_thread(report: Answer) -> list[Block]:
    """Where the time of a program without a device went."""
    frame = pl.DataFrame(report.main_parts)
    table = blocks.make_table(
        MAIN_THREAD,
        frame.select(column.name for column in _PARTS),
        _PARTS,
        heat=("window_pct",),
        more="sightline stats host_breakdown",
    )
    usage = report.main_usage
    return [table] if usage is None else [table, blocks.make_text(f"It {usage}.")]


def _operators(view: PageView) -> Block:
    """What there is to say first of a run on the CPU: where its own time went."""
    analysis = registry.load("analyses", "ops").ANALYSIS
    on_device = [c.name for c in analysis.columns if c.name.startswith(("device_", "launches"))]
    frame = view.run.ask("ops").filter(pl.col("instances") > 0)
    return blocks.make_table(
        "Operators, by their own time",
        frame.sort("host_self_ns", "name", descending=[True, False]).head(TOP_KERNELS),
        analysis.columns,
        sort="host_self_ns",
        hide=on_device,
    )


def _functions(rows: list[dict[str, Any]]) -> Block:
    """Where the stacks end, for a recording that holds nothing else."""
    unit = rows[0]["unit"]
    amount = duration if unit == "ns" else partial(number, unit=unit)
    columns = (
        text("name", "function"),
        amount("own", "in itself"),
        pct("own_pct", "share of all"),
        amount("total", "with what it calls"),
    )
    frame = pl.DataFrame([row | {"name": row["short_name"]} for row in rows])
    table = blocks.make_table(
        name_functions(rows), frame.select(column.name for column in columns), columns
    )
    # Functions of the host are no kernels, whose names are shortened to what tells them apart.
    for part in table["columns"]:
        part.pop("labels", None)
    return table


def _limit(row: dict[str, Any]) -> dict[str, str]:
    return {
        "severity": row["severity"],
        "text": make_printable(format_note(row["count"], row["text"])),
        "remedy": make_printable(row["remedy"] or ""),
    }


def _cards(view: PageView) -> list[dict[str, Any]]:
    pairs = zip(view.judged, view.places, strict=True)
    leads = len(view.answer.leads)
    return [
        {**_card(view, finding, places), "leads": place < leads}
        for place, (finding, places) in enumerate(pairs)
    ]


def _name_whole(view: PageView, finding: dict[str, Any]) -> str:
    """What a cost is a share of, in words: 'the window', and of several devices all of them."""
    whole = name_whole(finding, has_timeline=view.has_device)
    return "all windows" if whole == "the window" and len(view.answer.window) > 1 else whole


def _card(view: PageView, finding: dict[str, Any], places: pl.DataFrame) -> dict[str, Any]:
    def text(name: str) -> str:
        return make_printable(finding[name] or "")

    paths = [r["path"] for r in view.answer.recordings]
    # Many recordings make no command that a person reads.
    where = shlex.join(paths) if len(paths) <= 2 else "RECORDINGS"
    return {
        "rule": text("rule"),
        "title": text("title"),
        "severity": finding["severity"],
        "confidence": finding["confidence"],
        "summary": text("summary"),
        "cost_ns": finding["cost_ns"],
        "cost_bytes": finding.get("cost_bytes"),
        "cost_pct": finding["cost_pct"],
        "gain_ns": finding["gain_ns"],
        "gain_bytes": finding.get("gain_bytes"),
        "cost_j": finding.get("cost_j"),
        "gain_j": finding.get("gain_j"),
        "gain_pct": finding["gain_pct"],
        "of": _name_whole(view, finding),
        "evidence": [make_printable(e) for e in finding["evidence"]],
        "cause": text("cause"),
        "fix": text("fix"),
        "verify": text("verify"),
        "method": text("method"),
        "sources": [make_printable(s) for s in finding["sources"]],
        "limits": [make_printable(s) for s in finding["limits"]],
        "command": f"sightline explain {finding['rule']}",
        "again": f"sightline report {where} --json",
        "kernel": make_printable(str(finding["where"].get("kernel") or "")),
        "where": {
            "count": places.height,
            "spark": measure_spark(places, view.span),
            "drawn": not view.timeline.events.is_empty(),
        },
    }
