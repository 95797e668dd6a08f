"""What a tracer of the whole system saw: threads and interrupts, and calls where no GPU worked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from rich.text import Text

from sightline.model.run import Run
from sightline.text import fit_text
from sightline.units import format_count, format_ns

_MOST = 6
# Layers of calls that recordings without a GPU's work may be all about.
_CALLS = ("runtime", "driver", "os", "mpi", "library", "openmp", "openacc", "annotation")


def summarize_system(run: Run, *, has_ops: bool) -> dict[str, list[dict[str, Any]]]:
    """The first rows of threads and interrupts, where wake-ups tell who waited for a CPU.

    Of calls, only where nothing else says where the time went: no device work and no operators.
    """
    has_waits = run.rows("wakeups") and run.rows("sched_events")
    has_calls = not has_ops and not run.rows("device_ops") and run.rows("host_ops")
    return {
        "threads": _head(run, "thread_states") if has_waits else [],
        "interrupts": _head(run, "interrupt_times") if run.rows("interrupts") else [],
        "calls": _sum_calls(run) if has_calls else [],
    }


def _head(run: Run, analysis: str) -> list[dict[str, Any]]:
    return run.ask(analysis).head(_MOST).to_dicts()


def _sum_calls(run: Run) -> list[dict[str, Any]]:
    """Calls by layer and name, the longest together first. Marks take no time and are left out."""
    length = pl.col("end_ns") - pl.col("start_ns")
    used = ("layer", "name", "range_kind", "start_ns", "end_ns")
    calls = run.table("host_ops", used).filter(
        pl.col("layer").is_in(_CALLS) & (pl.col("range_kind").fill_null("") != "mark")
    )
    summed = calls.group_by("layer", "name").agg(
        count=pl.len(), total_ns=length.sum(), max_ns=length.max()
    )
    return (
        summed.sort("layer", "name")
        .sort("total_ns", descending=True, maintain_order=True)
        .head(_MOST)
        .to_dicts()
    )


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
    yield Text(
        f"{'Calls on the CPU':<{room}}{'layer':>12}{'n':>12}{'total':>11}{'longest':>11}",
        style="bold",
    )
    for row in rows:
        yield Text(
            f"{fit_text(row['name'], room - 1):<{room}}{row['layer']:>12}"
            f"{format_count(row['count']):>12}{format_ns(row['total_ns']):>11}"
            f"{format_ns(row['max_ns']):>11}"
        )
