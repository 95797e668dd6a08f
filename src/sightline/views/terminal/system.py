"""Threads, interrupts and calls as lines of a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from sightline.core.kernel_labels import label_kernels
from sightline.core.text import fit_text
from sightline.core.units import format_count, format_ns, format_pct, format_several

MOST_RUNS = 8
_RUN_COLUMNS = ("kernel_ns", "copy_ns", "fill_ns", "call_ns")


def print_system(data: dict[str, list[dict[str, Any]]], width: int) -> Iterator[list[Text]]:
    """A block of lines for each kind that there is."""
    if data["mpi"]:
        yield list(_print_mpi(data["mpi"][0], data["mpi_waits"], width))
    if data["threads"]:
        yield list(_print_threads(data["threads"], width))
    if data["interrupts"]:
        yield list(_print_interrupts(data["interrupts"], width))
    if data["calls"]:
        yield list(_print_calls(data["calls"], width))
    if data["runs"]:
        yield list(_print_runs(data["runs"], width))


def _print_mpi(job: dict[str, Any], waits: list[dict[str, Any]], width: int) -> Iterator[Text]:
    share = format_pct(100 * job["mpi_ns"] / max(job["span_ns"], 1))
    yield Text(
        f"MPI: {format_several(job['ranks'], 'rank')}, {format_several(job['calls'], 'call')}, "
        f"{share} of the ranks' time without MPI_Init",
        style="bold",
    )
    if not waits:
        yield Text("  no rank waited for another, as far as messages could be matched")
        return
    room = width - 60
    yield Text(
        f"{'Who waited':<12}{'for':<12}{'why':<{room}}{'calls':>10}{'wait':>12}{'longest':>14}"
    )
    for row in waits:
        yield Text(
            f"{'rank ' + str(row['mpi_rank']):<12}{'rank ' + str(row['peer_rank']):<12}"
            f"{fit_text(row['pattern'], room - 1):<{room}}{format_count(row['calls']):>10}"
            f"{format_ns(row['wait_ns']):>12}{format_ns(row['longest_wait_ns']):>14}"
        )


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


def _print_runs(rows: list[dict[str, Any]], width: int) -> Iterator[Text]:
    room = width - 44
    yield Text(
        f"{'Runs in this text':<{room}}{'kernels':>11}{'copies':>11}{'memsets':>11}{'calls':>11}",
        style="bold",
    )
    first = max(len(rows) - MOST_RUNS, 0)
    if first:
        yield Text(f"… {format_several(first, 'earlier run')}: sightline stats summed_runs")
    for row in rows[first:]:
        name = f"{row['part'] + 1}  {row['command'] or ''}  {row['longest'] or ''}".rstrip()
        mark = "* " if row["judged"] else "  "
        yield Text(
            f"{mark}{fit_text(name, room - 3):<{room - 2}}"
            + "".join(f"{format_ns(row[column]):>11}" for column in _RUN_COLUMNS)
        )
    yield Text("* findings are about this one")


def _is_cxx(row: dict[str, Any]) -> bool:
    """Whether it is a kernel whose name says more than a person needs; a copy's says its way."""
    return row["layer"] == "device" and re.search(r"::|<|^_", row["name"]) is not None


def _print_calls(rows: list[dict[str, Any]], width: int) -> Iterator[Text]:
    room = width - 46
    title = "Calls on the CPU"
    if any(row["layer"] in ("device", "wait") for row in rows):
        title = "Calls and kernels, added up"
    yield Text(
        f"{title:<{room}}{'layer':>12}{'n':>12}{'total':>11}{'longest':>11}",
        style="bold",
    )
    labels = label_kernels(row["name"] for row in rows if _is_cxx(row))
    for row in rows:
        name = labels.get(row["name"], row["name"])
        yield Text(
            f"{fit_text(name, room - 1):<{room}}{row['layer'] or '':>12}"
            f"{'' if row['count'] is None else format_count(row['count']):>12}"
            f"{format_ns(row['total_ns']):>11}"
            f"{'' if row['max_ns'] is None else format_ns(row['max_ns']):>11}"
        )
