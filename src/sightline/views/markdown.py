"""The report as Markdown, for a pull request or an issue: no picture, no click needed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sightline.answer.answer import MAIN_THREAD, Answer
from sightline.answer.price_words import LABELS, has_gain, label_device, write_price
from sightline.core.text import fit_text, make_printable
from sightline.core.units import format_count, format_note, format_ns, format_pct
from sightline.views.terminal.screen import MAX_RANKS, format_amount, list_parts, name_functions

TOP_FINDINGS = 10
NAME_WIDTH = 80
# What Markdown or HTML would take for markup. Names come from recordings and are text.
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|~])")


def write_markdown(answer: Answer) -> str:
    """The whole page."""
    blocks = [
        [
            "# Why is it slow?",
            "",
            escape_text(answer.headline),
            "",
            escape_text(" · ".join(answer.about)),
        ],
        list(_where(answer)),
        list(_findings(answer)),
        list(_kernels(answer)),
        list(_ops(answer)),
        list(_functions(answer)),
        list(_limits(answer)),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def escape_text(words: str) -> str:
    """A text of a recording as Markdown shows it, letter by letter."""
    plain = _MARKUP.sub(r"\\\1", make_printable(words))
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def write_row(cells: list[str]) -> str:
    """A row of a table; its cells are escaped."""
    return "| " + " | ".join(cells) + " |"


def _where(answer: Answer) -> Iterator[str]:
    rows = answer.breakdown
    if not rows:
        yield from _main_thread(answer)
        return
    yield "## Where the time went"
    yield ""
    parts = list_parts(rows)
    yield write_row(["", *(label for _, label, *_ in parts), "window"])
    yield write_row(["---", *["---:"] * (len(parts) + 1)])
    for row in rows[:MAX_RANKS]:
        cells = [
            f"{format_pct(row[f'{part}_pct'])} ({format_ns(row[f'{part}_ns'])})"
            for part, *_ in parts
        ]
        yield write_row([label_device(row, rows), *cells, format_ns(row["window_ns"])])
    if len(rows) > MAX_RANKS:
        yield ""
        yield f"{len(rows) - MAX_RANKS} more: `sightline stats breakdown`"
    for note in answer.notes:
        yield ""
        yield escape_text(note)


def _main_thread(answer: Answer) -> Iterator[str]:
    if not answer.main_parts:
        return
    yield f"## {MAIN_THREAD}"
    yield ""
    yield write_row(["part", "share", "time"])
    yield write_row(["---", "---:", "---:"])
    for row in answer.main_parts:
        cells = [escape_text(row["part"]), format_pct(row["window_pct"]), format_ns(row["own_ns"])]
        yield write_row(cells)
    if usage := answer.main_usage:
        yield ""
        yield f"It {usage}."


def _findings(answer: Answer) -> Iterator[str]:
    judged = answer.judged
    yield "## Findings"
    if not judged:
        yield ""
        yield "No rule found a problem."
    gains = answer.gains
    remarks = answer.remarks
    for place, finding in enumerate([*gains, *remarks][:TOP_FINDINGS], 1):
        head = f"{place}. " if has_gain(finding) else "Remark: "
        price = [finding["severity"], *write_price(finding, answer.breakdown)]
        yield ""
        yield f"### {head}{escape_text(finding['title'])}"
        yield ""
        yield escape_text(" · ".join(price))
        yield ""
        yield escape_text(finding["summary"])
        yield ""
        yield from (f"- {escape_text(fit_text(line, 400))}" for line in finding["evidence"])
        for label in LABELS:
            if finding[label]:
                yield f"- **{LABELS[label]}:** {escape_text(finding[label])}"
    if len(judged) > TOP_FINDINGS:
        yield ""
        yield f"{len(judged) - TOP_FINDINGS} more: `sightline report --json`"


def _kernels(answer: Answer) -> Iterator[str]:
    if not answer.kernels:
        return
    yield "## Top kernels"
    yield ""
    yield write_row(["kernel", "instances", "total", "mean", "of the window"])
    yield write_row(["---", "---:", "---:", "---:", "---:"])
    for row in answer.kernels:
        yield write_row(
            [
                escape_text(fit_text(row["short_name"], NAME_WIDTH)),
                format_count(row["instances"]),
                format_ns(row["total_ns"]),
                format_ns(row["mean_ns"]),
                format_pct(row["window_pct"]),
            ]
        )


def _ops(answer: Answer) -> Iterator[str]:
    if not answer.ops:
        return
    yield "## Top operators on the CPU"
    yield ""
    yield write_row(["operator", "instances", "own time", "total"])
    yield write_row(["---", "---:", "---:", "---:"])
    for row in answer.ops:
        times = [format_ns(row["host_self_ns"]), format_ns(row["host_total_ns"])]
        yield write_row(
            [escape_text(fit_text(row["name"], NAME_WIDTH)), format_count(row["instances"]), *times]
        )


def _functions(answer: Answer) -> Iterator[str]:
    rows = answer.functions
    if not rows:
        return
    yield f"## {name_functions(rows)}"
    yield ""
    yield write_row(["function", "own", "share", "total"])
    yield write_row(["---", "---:", "---:", "---:"])
    for row in rows:
        own, total = (format_amount(row[k], row["unit"]) for k in ("own", "total"))
        name = escape_text(fit_text(row["short_name"], NAME_WIDTH))
        yield write_row([name, own, format_pct(row["own_pct"]), total])


def _limits(answer: Answer) -> Iterator[str]:
    abstained = answer.not_judged
    if not answer.limits and not abstained:
        return
    yield "## What limits the conclusions"
    yield ""
    for limit in answer.limits:
        note = escape_text(format_note(limit["count"], limit["text"]))
        remedy = f" → {escape_text(limit['remedy'])}" if limit["remedy"] else ""
        yield f"- {limit['severity']}: {note}{remedy}"
    for finding in abstained:
        reason = escape_text(finding["reason"] or "")
        yield f"- not judged: {escape_text(finding['rule'])} ({reason})"
