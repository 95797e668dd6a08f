"""The report as one screen of text, as wide as the window: 80 columns or more."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from sightline.answer.answer import Answer
from sightline.answer.price_words import LABELS, write_price
from sightline.core.model.describe import name_recordings
from sightline.core.text import fit_text, fit_texts, make_printable
from sightline.core.units import (
    format_bytes,
    format_count,
    format_joules,
    format_note,
    format_ns,
    format_pct,
    format_several,
)
from sightline.views.terminal.bandwidth import print_bandwidth
from sightline.views.terminal.kernels_text import print_kernels
from sightline.views.terminal.marks_text import print_marks, print_memory
from sightline.views.terminal.requests import print_requests
from sightline.views.terminal.sampled import print_sampled
from sightline.views.terminal.serving_text import print_serving
from sightline.views.terminal.system import print_system
from sightline.views.terminal.use_text import print_devices, print_events

WIDTH = 80  # of what is not a terminal, and the least that the layout fits
PROSE = 100  # longer lines of sentences are hard to read
MOST = 200
BAR = 41
HOST_BAR = 26  # beside longer names
MAX_RANKS = 16
MAX_FINDINGS = 4
MAX_REMARKS = 3
_ALONE = "removing it alone"  # why a remark that costs something gains nothing
MAX_PARTS = 5
MAX_KERNELS = 5
EVIDENCE_LINES = 4  # of one fact: a sentence is printed whole, a call stack is not

# part of the breakdown: label, colour, how it looks in a bar
Part = tuple[str, str, str, str]
PARTS: tuple[Part, ...] = (
    ("compute", "compute", "green", "█"),
    ("exposed_comm", "exposed comm", "magenta", "▒"),
    ("exposed_copy", "copies", "yellow", "░"),
    ("unknown", "unknown", "blue", "▚"),
    ("idle", "idle", "dim", "·"),
)


def render_screen(answer: Answer, width: int = WIDTH) -> Text:
    """The whole screen; what is wider than 80 columns gives room to names and sentences."""
    width = min(max(width, WIDTH), MOST)
    prose = min(width, PROSE)
    devices = list(print_devices(answer.use["devices"]))
    blocks = [
        list(_head(answer, prose)),
        [*_where_the_time_went(answer), *_notes(answer, prose)],
        list(_missing(answer, prose)),
        [] if answer.breakdown else devices,
        *print_serving(answer.serving),
        list(_findings(answer, prose)),
        list(print_events(answer.use["events"])),
        list(_kernels(answer, width)),
        devices if answer.breakdown else [],
        *print_marks(answer.marks, answer.use["devices"]),
        list(print_memory(answer.memory)),
        [Text(line) for line in print_kernels(answer, width)],
        [Text(line) for line in print_sampled(answer.sampled_kernels, width)],
        list(_ops(answer, width)),
        list(_functions(answer, width)),
        *print_requests(answer.requests, width),
        *print_system(answer.system, width),
        *print_bandwidth(answer.bandwidth),
        list(_limits(answer, prose)),
    ]
    return Text("\n\n").join(Text("\n").join(block) for block in blocks if block)


def _head(answer: Answer, width: int) -> Iterator[Text]:
    recordings, devices = answer.recordings, answer.devices
    tools = sorted({r["tool"] for r in recordings if r["tool"]})
    parts = [*name_recordings(recordings), ", ".join(tools) or recordings[0]["format"]]
    if devices:
        kinds = sorted({d["name"] or "GPU of unknown name" for d in devices})
        parts.append(f"{len(devices)} × {', '.join(kinds)}")
    if len(recordings) == 1:
        parts += _name_rank(recordings[0])
    yield from _joined(parts, width, style="bold")
    if answer.window:
        lengths = [w["window_end_ns"] - w["window_start_ns"] for w in answer.window]
        low, high = format_ns(min(lengths)), format_ns(max(lengths))
        span = f"window {low}" if low == high else f"windows {low} to {high} long"
        how = re.sub(r"(?<=\w)\.\.(?=\w)", " to ", answer.window[0]["window"])
        count = format_several(answer.window_operations, "GPU operation")
        yield from _joined([f"{span}, {how}", count], width)
    elif answer.profiled_kernels:
        n = answer.counts["profiled_kernels"]
        count = format_several(n, "profiled kernel launch", "profiled kernel launches")
        yield Text(f"{count} · no timeline")
    elif answer.sampled_kernels:
        yield Text("no timeline")
    elif answer.counts.get("host_ops"):
        yield from _joined(_describe_host(answer), width)
    elif answer.counts.get("stack_weights") or answer.counts.get("cpu_samples"):
        stacks = format_count(answer.counts.get("stacks", 0))
        yield Text(f"no timeline · {stacks} frames of call stacks. To see them:")
        yield Text(f"  sightline flame {_name_first(answer)} -o flame.html")
    else:
        held = ", ".join(
            format_several(n, *_name_rows(name))
            for name, n in answer.counts.items()
            if name not in ("recordings", "quality")
        )
        yield from wrap_text(f"no timeline · {held or 'no events'}", "", "", width)
        for table in ("compilations", "fused_kernels"):
            if answer.counts.get(table):
                log = shlex.quote(str(answer.recordings[0]["path"]))
                yield Text(make_printable(f"  sightline stats {table} {log}"))


def _name_rows(table: str) -> tuple[str, str]:
    """What one row of a table is called, and several: source file, source files."""
    several = table.replace("_", " ")
    return re.sub(r"(?<=ss)es$|s$", "", several), several


def _name_first(answer: Answer) -> str:
    """The first recording as a person would type it."""
    path = Path(answer.recordings[0]["path"])
    path = path.parent if path.parent.suffix == ".sightline" else path
    return make_printable(shlex.quote(str(path)))


def _tell_findings(before: str, answer: Answer, width: int) -> str:
    """The command that prints all findings, behind some words; without a name that has no room."""
    if len(answer.recordings) == 1:
        line = f"{before}sightline findings {_name_first(answer)}"
        return line if len(line) <= width else f"{before}sightline findings, with the same file"
    return f"{before}sightline findings, with the same files"


def _describe_host(answer: Answer) -> list[str]:
    """What was recorded of a program without a device, and its window."""
    parts = ["no GPU operations", format_several(answer.counts["host_ops"], "CPU range")]
    rows = answer.host_breakdown
    if rows:
        longest = max(rows, key=lambda row: row["window_ns"])
        how = format_several(longest["steps"], "step") if longest["steps"] else "all operators"
        parts.insert(0, f"window {format_ns(longest['window_ns'])}, {how} of the main thread")
    return parts


def _name_rank(recording: dict[str, Any]) -> list[str]:
    """The recording's rank, if it is known to have one; a program of one process has none."""
    world = recording["world_size"]
    if recording["rank_source"] == "order":
        return [format_several(world, "rank")] if world else []
    return [f"rank {recording['rank']}" + (f" of {world}" if world else "")]


def _joined(parts: list[str], width: int, style: str = "", indent: str = "") -> Iterator[Text]:
    """Parts with ' · ' between them, broken over lines between parts only."""
    line = ""
    for part in parts:
        part = make_printable(part)
        if line and len(line) + 3 + len(part) > width:
            yield Text(line, style=style)
            line = indent + part
        else:
            line = f"{line} · {part}" if line else part
    yield Text(fit_text(line, width), style=style)


def _where_the_time_went(answer: Answer) -> Iterator[Text]:
    rows = answer.breakdown
    if len(rows) == 1:
        yield from _one_device(rows[0])
    elif rows:
        yield from _many_devices(rows, answer)
    elif answer.host_breakdown:
        yield from _main_thread(answer)
        yield from _usage(answer)


def _notes(answer: Answer, width: int) -> Iterator[Text]:
    for note in answer.notes:
        yield from wrap_text(note, "", "", width)


def _usage(answer: Answer) -> Iterator[Text]:
    """What the operating system counted for the thread whose parts are shown."""
    if usage := answer.main_usage:
        yield Text(f"        it {usage}", style="dim")


def _main_thread(answer: Answer) -> Iterator[Text]:
    """The largest parts of the main thread's time, of the rank that took longest."""
    rows, mine = answer.host_breakdown, answer.main_parts
    slowest = mine[0]["rank"]
    ranks = {row["rank"] for row in rows}
    for line, row in enumerate(mine[:MAX_PARTS]):
        label = "CPU" if len(ranks) == 1 else f"rank {slowest}"
        text = Text(f"{label:<8.8}" if line == 0 else "        ")
        text.append(f"{'█' * round(row['window_pct'] * HOST_BAR / 100):<{HOST_BAR}}", style="cyan")
        pct, ns = format_pct(row["window_pct"]), format_ns(row["own_ns"])
        text.append(f"  {fit_text(row['part'], 26):<26}{pct:>7}{ns:>11}")
        yield text
    if len(mine) > MAX_PARTS:
        rest = sum(row["own_ns"] for row in mine[MAX_PARTS:])
        share = format_pct(100 * rest / mine[0]["window_ns"])
        yield Text(
            f"{'':<{HOST_BAR + 10}}{'other':<26}{share:>7}{format_ns(rest):>11}", style="dim"
        )


def list_parts(rows: Sequence[dict[str, Any]]) -> list[Part]:
    """The parts that rows of a breakdown have: unknown only where there is some."""
    return [p for p in PARTS if p[0] != "unknown" or any(row["unknown_ns"] for row in rows)]


def _one_device(row: dict[str, Any]) -> Iterator[Text]:
    shown = [p for p in PARTS if row[f"{p[0]}_ns"] or p[0] in ("compute", "idle")]
    for line, (part, label, colour, _) in enumerate(shown):
        text = Text("GPU   " if line == 0 else "      ")
        text.append_text(_bar(row, BAR) if line == 0 else Text(" " * BAR))
        pct, ns = format_pct(row[f"{part}_pct"]), format_ns(row[f"{part}_ns"])
        text.append(f"  {label:<13}", style=colour)
        text.append(f"{pct:>7}{ns:>11}")
        yield text


def _bar(row: dict[str, Any], width: int) -> Text:
    """Shares of the window as a bar of exactly `width` cells; what is not zero shows."""
    window = row["window_ns"] or 1
    exact = [row[f"{part}_ns"] * width / window for part, *_ in PARTS]
    cells = [max(int(e), 1 if e > 0.02 else 0) for e in exact]
    order = sorted(range(len(PARTS)), key=lambda i: exact[i] - cells[i], reverse=True)
    while sum(cells) < width:
        cells[order[0]] += 1
        order = sorted(range(len(PARTS)), key=lambda i: exact[i] - cells[i], reverse=True)
    while sum(cells) > width:
        cells[max(range(len(PARTS)), key=lambda i: cells[i])] -= 1
    bar = Text()
    for (_, _, colour, char), n in zip(PARTS, cells, strict=True):
        bar.append(char * n, style=colour)
    return bar


def _many_devices(rows: list[dict[str, Any]], answer: Answer) -> Iterator[Text]:
    several = len({r["device_id"] for r in rows}) > 1 and len({r["rank"] for r in rows}) < len(rows)
    late = {rank for f in answer.findings for rank in f["where"].get("late_ranks", ())}
    parts = list_parts(rows)
    bar = 24 - 9 * (len(parts) - 4)
    heads = "".join(f"{p[1].replace('exposed', 'exp.'):>{_pct_width(p)}}" for p in parts)
    yield Text(f"{'rank':<8}{'':<{bar + 2}}{heads}", style="dim")
    shown = rows if len(rows) <= MAX_RANKS else rows[: MAX_RANKS - 1]
    for row in shown:
        label = f"{row['rank']}/gpu{row['device_id']}" if several else str(row["rank"])
        text = Text(f"{label:<8}") + _bar(row, bar) + Text("  ")
        for part in parts:
            text.append(f"{format_pct(row[f'{part[0]}_pct']):>{_pct_width(part)}}")
        if row["rank"] in late:
            text.append(" ◀", style="bold")
        yield text
    if len(rows) > len(shown):
        yield Text(f"… {len(rows) - len(shown)} more: sightline stats breakdown", style="dim")
    yield _legend(parts)


def _pct_width(part: Part) -> int:
    return 11 if part[0] == "exposed_comm" else 9


def _legend(parts: Sequence[Part]) -> Text:
    text = Text("        ")
    for _, label, colour, char in parts:
        text.append(char, style=colour)
        text.append(f" {label}   ", style="dim")
    return text


def _findings(answer: Answer, width: int) -> Iterator[Text]:
    judged = answer.judged
    if not judged and answer.breakdown:
        busy = min(r["compute_pct"] for r in answer.breakdown)
        more = " or more" if len(answer.breakdown) > 1 else ""
        yield Text(f"No finding: the GPU computes for {format_pct(busy)} of the window{more}.")
    gains = answer.gains
    remarks = answer.remarks
    leads = answer.leads
    shown = [*((None, f) for f in leads), *enumerate(gains[:MAX_FINDINGS], 1)]
    for place, (number, finding) in enumerate(shown):
        if place:
            yield Text()
        yield from _finding(number, finding, answer.breakdown, width)
    remarks = remarks[len(leads) :]
    if remarks:
        if shown:
            yield Text()
        yield Text(answer.remarks_title, style="bold")
    for finding in remarks[:MAX_REMARKS]:
        cost = _cost(finding, answer.breakdown)
        yield from _title(f"·  {finding['title']}", finding["rule"], "", width)
        yield from wrap_text(f"{cost}{finding['summary']}", "   ", "   ", width)
        for line in _choose_facts(finding["evidence"]):
            yield from _evidence(line, width)
        if not shown and finding is remarks[0] and finding["fix"]:
            yield from wrap_text(finding["fix"], "   Fix    ", " " * 10, width)
    left_out = len(gains[MAX_FINDINGS:]) + len(remarks[MAX_REMARKS:])
    if left_out:
        yield Text()
        yield Text(_tell_findings(f"   {left_out} more:  ", answer, width), style="dim")


def _choose_facts(evidence: Sequence[str]) -> list[str]:
    """Two facts for a remark: the first, and why it gains nothing, else the second."""
    why = [fact for fact in evidence[1:] if fact.startswith(_ALONE)]
    return [*evidence[:1], *(why or evidence[1:])[:1]]


def _cost(finding: dict[str, Any], breakdown: list[dict[str, Any]]) -> str:
    """What a remark costs, as the beginning of its text."""
    first = write_price(finding, breakdown)[0]
    return f"{first[:1].upper()}{first[1:]}. " if first.startswith(("costs", "takes")) else ""


def _title(title: str, rule: str, style: str, width: int) -> Iterator[Text]:
    """The title, and at the right end the rule's name, which `sightline explain` takes."""
    title = make_printable(title)
    if len(title) + len(rule) + 2 > width:
        yield from (Text(line.plain, style=style) for line in wrap_text(title, "", "   ", width))
        title = ""
    yield Text(title, style=style) + Text(rule.rjust(width - len(title)), style="dim")


# The widest figures: 'costs 999.9 ms (100.0 %)', 'could save up to 999.9 ms (99.9 %)'.
_COST, _GAIN = 24, 34


def _finding(
    number: int | None, finding: dict[str, Any], breakdown: list[dict[str, Any]], width: int
) -> Iterator[Text]:
    style = {"critical": "bold red", "warning": "bold yellow"}.get(finding["severity"], "bold")
    yield from _title(f"{number or ''!s:<3}{finding['title']}", finding["rule"], style, width)
    parts = write_price(finding, breakdown)
    if len(parts) == 3:
        line = f"   {parts[0]:<{_COST}} {parts[1]:<{_GAIN}} {parts[2]}"
        if len(line) <= width:
            yield Text(line, style="bold")
        else:
            yield from _joined(["   " + parts[0], *parts[1:]], width, "bold", "   ")
    yield from wrap_text(finding["summary"], "   ", "   ", width)
    for line in finding["evidence"][:4]:
        yield from _evidence(line, width)
    for label in LABELS:
        if finding[label]:
            head = f"   {LABELS[label]:<7}"
            yield from wrap_text(finding[label], head, " " * 10, width)


def _evidence(fact: str, width: int) -> Iterator[Text]:
    """A fact on as many lines as it takes; a name that fits no line is cut from its middle."""
    room = width - 5
    words = re.split(r"(\s+)", make_printable(fact))
    lines = list(wrap_text("".join(fit_text(w, room) for w in words), "   · ", "     ", width))
    for number, line in enumerate(lines[:EVIDENCE_LINES], 1):
        if number == EVIDENCE_LINES < len(lines):
            line = Text(line.plain[: width - 2] + " …")
        line.stylize("dim")
        yield line


# The blank between a number and its unit, at which no line may break.
_UNIT = re.compile(r"(?<=\d) (?=(?:%|ns|µs|ms|s|[kMGTP]?B(?:/s)?)(?:\W|$))")


def wrap_text(text: str, first: str, rest: str, width: int) -> Iterator[Text]:
    """A text as lines with an indent of their own; no number is parted from its unit."""
    glued = _UNIT.sub("\0", make_printable(text))
    lines = textwrap.wrap(
        glued,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )
    yield from (Text(line.replace("\0", " ")) for line in lines)


def _kernels(answer: Answer, width: int) -> Iterator[Text]:
    rows = answer.kernels
    if not rows:
        return
    room = width - 39
    yield Text(
        f"{'Top kernels':<{room}}{'n':>9}{'total':>11}{'mean':>10}{'window':>9}", style="bold"
    )
    names = fit_texts([row["short_name"] for row in rows[:MAX_KERNELS]], room - 1)
    for row, name in zip(rows, names, strict=False):
        yield Text(
            f"{name:<{room}}{format_count(row['instances']):>9}"
            f"{format_ns(row['total_ns']):>11}{format_ns(row['mean_ns']):>10}"
            f"{format_pct(row['window_pct']):>9}"
        )
    if answer.counts.get("fused_kernels"):
        yield Text("Operators and lines of generated kernels: sightline stats fused_kernels", "dim")


def _ops(answer: Answer, width: int) -> Iterator[Text]:
    if not answer.ops:
        return
    room = width - 36
    yield Text(
        f"{'Top operators on the CPU':<{room}}{'n':>12}{'own time':>12}{'total':>12}", style="bold"
    )
    names = fit_texts([row["name"] for row in answer.ops[:MAX_KERNELS]], room - 1)
    for row, name in zip(answer.ops, names, strict=False):
        yield Text(
            f"{name:<{room}}{format_count(row['instances']):>12}"
            f"{format_ns(row['host_self_ns']):>12}{format_ns(row['host_total_ns']):>12}"
        )


_STACKS_OF = {
    "cpu_time_ns": "CPU time",
    "gpu_time_ns": "GPU time",
    "gpu_idle_ns": "GPU idle time",
    "warp_time_ns": "time of warps",
}


def _functions(answer: Answer, width: int) -> Iterator[Text]:
    """Where the stacks end, for a recording that holds nothing else."""
    rows = answer.functions
    if not rows:
        return
    unit, head = rows[0]["unit"], name_functions(rows)
    shown = rows[:MAX_KERNELS]
    amounts = [(format_amount(r["own"], unit), format_amount(r["total"], unit)) for r in shown]
    wide = max(12, *(len(amount) + 2 for both in amounts for amount in both))
    room = width - 10 - 2 * wide
    yield Text(f"{head:<{room}}{'own':>{wide}}{'':>10}{'total':>{wide}}", style="bold")
    names = fit_texts([row["short_name"] for row in shown], room - 1)
    for row, name, (own, total) in zip(shown, names, amounts, strict=True):
        yield Text(f"{name:<{room}}{own:>{wide}}{format_pct(row['own_pct']):>10}{total:>{wide}}")


def name_functions(rows: list[dict[str, Any]]) -> str:
    """What the table of the longest functions is called, which may be regions."""
    what = "regions" if rows[0]["layer"] == "phase" else "functions"
    if rows[0].get("with_waits"):
        return f"Top {what} by time, waits included"
    return f"Top {what} by {is_measured(rows[0]['weight'])}"


def is_measured(weight: str) -> str:
    """A weight of stacks in words."""
    return _STACKS_OF.get(weight, weight.replace("_", " "))


def format_amount(value: int, unit: str) -> str:
    """A weight of stacks with its unit."""
    if unit == "ns":
        return format_ns(value)
    if unit == "µJ":
        return format_joules(value / 1e6)
    return format_bytes(value) if unit == "bytes" else format_count(value)


# Why the recording is not of what it was made for: said before what it has instead.
_MISSING = "no_device_ops"


def _missing(answer: Answer, width: int) -> Iterator[Text]:
    for limit in answer.limits:
        if limit.get("kind") == _MISSING and limit["severity"] != "info":
            yield from warn_of(limit, width)


def warn_of(limit: Mapping[str, Any], width: int) -> Iterator[Text]:
    """What went wrong, in full, with its remedy."""
    style = "bold red" if limit["severity"] == "error" else "yellow"
    head, *more = wrap_text(format_note(limit["count"], limit["text"]), "!  ", "   ", width)
    head.stylize(style, 0, 1)
    yield head
    yield from more
    if limit["remedy"]:
        yield from wrap_text(limit["remedy"], "   → ", "     ", width)


def _limits(answer: Answer, width: int) -> Iterator[Text]:
    """What limits the conclusions: what went wrong in full, with its remedy, then the rest."""
    abstained = answer.not_judged
    minor = []
    for limit in answer.limits:
        if limit["severity"] == "info":
            minor.append(format_note(limit["count"], limit["text"]))
        elif limit.get("kind") != _MISSING:
            yield from warn_of(limit, width)
    if len(minor) == 1:
        yield from wrap_text(f"What limits this: {minor[0]}.", "", "", width)
    elif minor:
        yield Text("What limits this")
        for note in minor:
            yield from wrap_text(note, "  · ", "    ", width)
    if len(abstained) > 2:
        yield Text(
            _tell_findings(
                f"{format_several(len(abstained), 'rule')} lacked data. See:  ", answer, width
            )
        )
        return
    rules: dict[str, list[str]] = {}
    for finding in abstained:
        rules.setdefault(str(finding["reason"]), []).append(finding["rule"])
    for reason, names in rules.items():
        yield from wrap_text(f"Not checked: {', '.join(names)} ({reason}).", "", "", width)
