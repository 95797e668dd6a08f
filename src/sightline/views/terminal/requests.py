"""What calls asked of a GPU, as lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from sightline.core.kernel_labels import label_kernels
from sightline.core.text import fit_text
from sightline.core.units import format_bytes, format_count, format_ns, format_pct, format_several

# In the order of the screen: what the calls of a purpose did to the threads that made them.
_PURPOSES = {
    "wait": "waiting for the GPU",
    "copy": "in copies and memsets",
    "launch": "launching",
    "allocate": "allocating and freeing",
    "communicate": "asking for collectives",
    "other": "in other calls",
}


def print_requests(data: dict[str, list[dict[str, Any]]], width: int) -> Iterator[list[Text]]:
    """A block each for time by purpose, for kernels and for copies."""
    if data["purposes"]:
        yield list(_print_purposes(data["purposes"]))
    if data["kernels"]:
        yield list(_print_kernels(data["kernels"], width))
    if data["copies"]:
        yield list(_print_copies(data["copies"]))


def _print_purposes(rows: list[dict[str, Any]]) -> Iterator[Text]:
    heads = f"{'of the window':>15}{'time':>12}{'calls':>12}{'per second':>12}"
    yield Text(f"{'In calls of GPU libraries':<29}{heads}", style="bold")
    for row in sorted(rows, key=lambda row: list(_PURPOSES).index(row["purpose"])):
        yield Text(
            f"{_PURPOSES[row['purpose']]:<29}{format_pct(row['window_pct'] or 0):>15}"
            f"{format_ns(row['own_ns']):>12}{format_count(row['calls']):>12}"
            f"{_format_rate(row['calls_per_s']):>12}"
        )


def _print_kernels(rows: list[dict[str, Any]], width: int) -> Iterator[Text]:
    room = width - 50
    labels = label_kernels(row["name"] for row in rows)
    heads = f"{'n':>12}{'per second':>12}{'grid':>14}{'block':>12}"
    yield Text(f"{'Kernels launched':<{room}}{heads}", style="bold")
    for row in rows:
        more = "" if row["sizes"] == 1 else " ..."
        yield Text(
            f"{fit_text(labels[row['name']], room - 1):<{room}}"
            f"{format_count(row['launches'] + row['failed']):>12}"
            f"{_format_rate(row['launches_per_s']):>12}"
            f"{fit_text(row['grid'] + more, 13):>14}{fit_text(row['block'], 11):>12}"
        )
    failed = sum(row["failed"] for row in rows)
    if failed:
        yield Text(f"{format_several(failed, 'launch', 'launches')} failed", style="yellow")


def _print_copies(rows: list[dict[str, Any]]) -> Iterator[Text]:
    heads = f"{'n':>12}{'bytes':>12}{'in the calls':>15}"
    yield Text(f"{'Copies asked for':<41}{heads}", style="bold")
    for row in rows:
        how = "" if row["kind"] == "memset" else ", asynchronous" if row["is_async"] else ", waits"
        what = row["kind"] if row["kind"] == "memset" else row["copy_kind"] or "direction not known"
        yield Text(
            f"{what + how:<41}{format_count(row['copies'] + row['failed']):>12}"
            f"{format_bytes(row['bytes']):>12}{format_ns(row['call_ns']):>15}"
        )


def _format_rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
