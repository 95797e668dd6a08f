"""Several runs one after another on a terminal: a line for each, and what changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from rich.text import Text

from sightline.core.text import fit_text
from sightline.core.units import format_ns
from sightline.views.comparison.comparison import PART_LABELS, format_change, format_change_pct
from sightline.views.terminal.screen import wrap_text

WIDTH, MOST, BAR = 80, 200, 12
_FIXED = 13 + 11 + 11 + 2 + BAR  # step, two changes, bar


def render_trend(data: dict[str, Any], width: int = WIDTH) -> Text:
    """The whole screen: the steps with bars, then the largest change of each."""
    width = min(max(width, WIDTH), MOST)
    return Text("\n").join(_list_lines(data, width))


def _list_lines(data: dict[str, Any], width: int) -> Iterator[Text]:
    runs = data["runs"]
    room = width - _FIXED
    head = f"{'':<{room}}{'step':>13}{'to last':>11}{'to first':>11}"
    yield Text(head, style="dim")
    longest = max(run["step_ns"] for run in runs) or 1
    for name, run in zip(_name_runs(runs), runs, strict=True):
        changes = [
            "" if run[k] is None else format_change_pct(100 * (run[k] - 1))
            for k in ("since_last", "since_first")
        ]
        line = Text(f"{fit_text(name, room):<{room}}{format_ns(run['step_ns']):>13}")
        line.append(f"{changes[0]:>11}{changes[1]:>11}  ")
        line.append("█" * max(1, round(BAR * run["step_ns"] / longest)), style="dim")
        yield line
    yield Text("")
    for number, run in enumerate(runs[1:], 2):
        yield from wrap_text(_explain(number, run), "  · ", "    ", width)


def _name_runs(runs: list[dict[str, Any]]) -> list[str]:
    paths = [PurePath(run["name"]) for run in runs]
    same = len({path.name for path in paths}) < len(paths)
    return ["/".join(path.parts[-2:]) if same else path.name for path in paths]


def _explain(number: int, run: dict[str, Any]) -> str:
    word, reasons = run["verdict"]["word"], run["verdict"]["reasons"]
    if word == "not comparable":
        return f"run {number}: not comparable with the one before, because {reasons[0]}"
    told = f"run {number}: {word}"
    if run["explains"] is None or not run["explains"]["delta_ns"]:
        return told
    label = run["explains"]["label"]
    if run["explains"]["part"] == "idle":
        label = f"{PART_LABELS['idle']} ({label})"
    return f"{told}; the largest change is {format_change(run['explains']['delta_ns'])} in {label}"
