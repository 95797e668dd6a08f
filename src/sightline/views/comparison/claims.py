"""Claims and their answers for a person: the word, what was claimed, what was measured, why."""

from __future__ import annotations

import textwrap
from typing import Any

from sightline.core.text import clean_text, fit_text, make_printable
from sightline.core.units import format_ns

_SIGNS = {"is": "", "at_most": "at most ", "at_least": "at least "}
_MARKS = {"yes": "YES", "no": "NO", "cannot be said": "CANNOT BE SAID"}
_WIDTH, _MOST_TEXT = 80, 200


def render_answers(answers: list[dict[str, Any]]) -> str:
    """All answers, one below the other, at 80 columns."""
    return "\n\n".join("\n".join(_render(answer)) for answer in answers)


def _render(answer: dict[str, Any]) -> list[str]:
    text = " ".join(make_printable(answer["claim"] or _name(answer["given"])).split())
    lines = textwrap.wrap(
        f"{_MARKS[answer['answer']]}  {fit_text(text, _MOST_TEXT)}", _WIDTH, subsequent_indent="  "
    )
    claimed, measured = answer["claimed"], answer["measured"]
    unit = measured["unit"]
    if claimed["relation"] != "exists":
        reach = f" ± {_format(claimed['within'], unit)}" if claimed["relation"] == "is" else ""
        shown = _format(claimed["value"], unit, is_change="before" in answer["given"])
        lines.append(f"  claimed   {_SIGNS[claimed['relation']]}{shown}{reach}")
        lines.append(f"  measured  {_describe(measured, 'before' in answer['given'])}")
    return [*lines, *_wrap("why       ", answer["why"])]


def _wrap(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        clean_text(text),
        _WIDTH,
        initial_indent=f"  {label}",
        subsequent_indent=" " * (2 + len(label)),
    )


def _name(given: dict[str, Any]) -> str:
    """What the claim is about, where it has no sentence."""
    sources = ("finding", "kernel", "analysis", "sql")
    words = [f"{key} {given[key]}" for key in sources if key in given]
    return " ".join([*words, *(str(given[k]) for k in ("metric", "column") if k in given)])


def _describe(measured: dict[str, Any], is_change: bool) -> str:
    if measured["value"] is None:
        return "not known"
    unit, low, high = measured["unit"], measured["low"], measured["high"]
    text = _format(measured["value"], unit, is_change)
    if low is not None and low != high:
        kind = "95 %: " if is_change else ""
        text += f"  ({kind}{_format(low, unit, is_change)} to {_format(high, unit, is_change)})"
    details = measured["details"] or {}
    if "before_ns" in details:
        text += f"  {format_ns(details['before_ns'])} → {format_ns(details['after_ns'])}"
    return text


def _format(value: float, unit: str, is_change: bool = False) -> str:
    """A figure with at most four digits, as claims have; times with their unit."""
    if unit == "ns":
        return format_ns(round(value))
    sign = "+" if is_change and value > 0 else ""
    number = f"{sign}{value:,.4g}" if abs(value) < 1e4 else f"{sign}{value:,.0f}"
    return number.replace("-", "−") + (f" {unit}" if unit else "")
