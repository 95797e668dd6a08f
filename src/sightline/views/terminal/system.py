"""Threads, interrupts and calls as lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from sightline.core.text import fit_text
from sightline.core.units import format_count, format_ns


def print_system(data: dict[str, list[dict[str, Any]]], width: int) -> Iterator[list[Text]]:
    """A block of lines for each kind that there is."""
    if data["threads"]:
        yield list(_print_threads(data["threads"], width))
    if data["interrupts"]:
        yield list(_print_interrupts(data["interrupts"], width))
    if data["calls"]:
        yield list(_print_calls(data["calls"], width))


def _print_threads(rows: list[dict[str, Any]], width: int) -> Iterator[Text]:
    room = width - 59
    yield Text(
        f"{'Threads that waited':<{room}}{'ran':>10}{'preempted':>11}{'woken':>10}  preempted by",
        style="bold",
    )
    for row in rows:
        name = f"{row['thread_name'] or 'thread'} ({row['tid']})"
        yield Text(
            f"{fit_text(name, room - 1):<{room}}{format_ns(row['running_ns']):>10}"
            f"{format_ns(row['preempted_ns']):>11}{format_ns(row['woken_ns']):>10}  "
            f"{fit_text(row['preempted_by'] or '-', 25)}"
        )


def _print_interrupts(rows: list[dict[str, Any]], width: int) -> Iterator[Text]:
    room = width - 44
    yield Text(
        f"{'Interrupts':<{room}}{'n':>12}{'total':>12}{'p99':>10}{'longest':>10}", style="bold"
    )
    for row in rows:
        number = "" if row["number"] is None else f" {row['number']}"
        name = f"{row['kind']}{number} {row['name'] or ''}"
        yield Text(
            f"{fit_text(name, room - 1):<{room}}{format_count(row['count']):>12}"
            f"{format_ns(row['total_ns']):>12}{format_ns(row['p99_ns']):>10}"
            f"{format_ns(row['max_ns']):>10}"
        )


def _print_calls(rows: list[dict[str, Any]], width: int) -> Iterator[Text]:
    room = width - 46
    title = "Calls on the CPU"
    if any(row["layer"] == "device" for row in rows):
        title = "Calls and kernels, added up"
    yield Text(
        f"{title:<{room}}{'layer':>12}{'n':>12}{'total':>11}{'longest':>11}",
        style="bold",
    )
    for row in rows:
        yield Text(
            f"{fit_text(row['name'], room - 1):<{room}}{row['layer'] or '':>12}"
            f"{'' if row['count'] is None else format_count(row['count']):>12}"
            f"{format_ns(row['total_ns']):>11}"
            f"{'' if row['max_ns'] is None else format_ns(row['max_ns']):>11}"
        )
