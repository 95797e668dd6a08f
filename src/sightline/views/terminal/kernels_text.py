"""The part of the terminal report about profiled kernels: plain text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any

from sightline.answer.answer import Answer
from sightline.core.kernel_labels import label_kernels
from sightline.core.text import fit_text
from sightline.core.units import format_count, format_ns, format_pct
from sightline.roofline.chart import shorten_name

WIDTH = 80
TOP_KERNELS = 10
TOP_MESSAGES = 3
MESSAGE_LINES = 4
# What a vendor calls its cores, and what multiplies matrices there.
_WORDS: dict[str | None, tuple[str, str]] = {
    "nvidia": ("SM", "tensor"), "amd": ("CU", "MFMA"), "intel": ("Xe", "XMX"),
}  # fmt: skip
ALL_MESSAGES = 'sightline sql REPORT "FROM vendor_rules"'


def print_kernels(answer: Answer, width: int = WIDTH) -> Iterator[str]:
    """The lines about profiled kernels of an answer; none where stacks say all that is known."""
    if answer.profiled_kernels and not answer.functions:
        vendors = {device["vendor"] for device in answer.devices}
        words = _WORDS.get(vendors.pop() if len(vendors) == 1 else None, _WORDS["nvidia"])
        yield from _table(answer.profiled_kernels, width, words)
        yield from _vendor(**answer.vendor_messages)


def _table(rows: list[dict[str, Any]], width: int, words: tuple[str, str]) -> Iterator[str]:
    known = [r["duration_ns"] for r in rows if r["duration_ns"] is not None]
    count = sum(r["n"] for r in rows)
    took = f"{format_ns(sum(known))} under the profiler, not the program's time"
    yield (
        f"{format_count(count)} profiled kernel{'s' * (count != 1)} · "
        f"{took if known else 'their times were not collected'}"
    )
    yield ""
    # tensor only where some kernel uses it, so that names have room.
    tensor = any(r["tensor_pct"] for r in rows)
    room = (23 if tensor else 31) + width - WIDTH
    unit, matrix = words
    head = f"{unit:>5}{'memory':>8}" + f"{matrix:>8}" * tensor
    yield f"{'Kernel':<{room}}{'n':>4}{'time':>10}{head}{'occupancy':>10}  bound"
    labels = label_kernels(r["name"] for r in rows[:TOP_KERNELS] if r["name"])
    for r in rows[:TOP_KERNELS]:
        shares = f"{_pct(r['sm_pct']):>5}{_pct(r['memory_pct']):>8}"
        shares += f"{_pct(r['tensor_pct']):>8}" * tensor
        both = f"{_pct(r['achieved_pct'])}/{_pct(r['theoretical_pct'])}"
        yield (
            f"{fit_text(labels.get(r['name'], 'unnamed'), room - 1):<{room}}{r['n']:>4}"
            f"{'—' if r['duration_ns'] is None else format_ns(r['duration_ns']):>10}"
            f"{shares}{both:>10}  "
            f"{(r['verdict'] or '—').replace('_', ' ')}"
        )
    if len(rows) > TOP_KERNELS:
        yield f"… and {len(rows) - TOP_KERNELS} more: sightline stats speed_of_light"
    yield f"{unit}, memory, {matrix}: % of peak · occupancy: achieved / theoretical %"


def _vendor(messages: list[dict[str, Any]], count: int) -> Iterator[str]:
    """The vendor's messages on the longest kernels, as theirs."""
    if not messages:
        return
    yield ""
    yield f"{messages[0]['source']} itself says (its rules, not ours):"
    for row in messages[:TOP_MESSAGES]:
        gain = row["speedup_pct"]
        note = f" [{row['speedup_type']} {format_pct(gain)}]" if gain else ""
        head = f"{row['rule']}{note}, {_clip(shorten_name(row['kernel']), 36)}:"
        yield from _whole_sentences(f"{head} {row['text']}")
    if count > TOP_MESSAGES:
        yield f"  … and {count - TOP_MESSAGES} more: {ALL_MESSAGES}"


def _whole_sentences(text: str) -> list[str]:
    """A message as far as its sentences fit; one that is too long by itself is cut."""
    kept = ""
    for sentence in re.split(r"(?<=[.!?]) +(?=[A-Z])", text):
        longer = f"{kept} {sentence}".lstrip()
        if kept and len(_message(longer)) > MESSAGE_LINES:
            break
        kept = longer
    return _message(kept, max_lines=MESSAGE_LINES)


def _message(text: str, max_lines: int | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_on_hyphens=False,
        max_lines=max_lines,
        placeholder=" …",
    )


def _pct(value: float | None) -> str:
    return "—" if value is None else f"{value:.0f}"


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
