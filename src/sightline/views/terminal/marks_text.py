"""The part of the screen that shows what the program marked, at most 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from sightline.core.text import fit_text, fit_texts
from sightline.core.units import format_bytes, format_count, format_ns, format_several

MAX_RANKS = 8
MAX_COUNTERS = 16


def print_marks(marks: dict[str, Any], gpus: Sequence[dict[str, Any]] = ()) -> Iterator[list[Text]]:
    """One block each for steps, ranges, checkpoints and counters, where there are some.

    Counters of `gpus`, which have a table of their own, are left out.
    """
    shown = {(gpu["rank"], gpu["device_id"]) for gpu in gpus}
    if marks["steps"]:
        yield list(_steps(marks["steps"]))
    if marks["ranges"]:
        yield list(_ranges(marks["ranges"], marks["ranges_left_out"]))
    if marks["checkpoints"]:
        yield list(_checkpoints(marks["checkpoints"], marks["checkpoints_left_out"]))
    # A checkpoint's own samples stand in its line already.
    counters = [
        c
        for c in marks["counters"]
        if not c["metric"].endswith("at checkpoints")
        and c["unit"] != "bits"
        and (c["source"] is not None or (c["rank"], c["device_id"]) not in shown)
    ]
    if counters:
        yield list(print_counters(counters))


def _steps(rows: list[dict[str, Any]]) -> Iterator[Text]:
    yield Text(f"{'Steps':<24}{'n':>8}{'first':>12}{'median':>12}{'min':>12}{'max':>12}", "bold")
    for row in rows[:MAX_RANKS]:
        times = "".join(
            f"{format_ns(row[k]):>12}" for k in ("first_ns", "median_ns", "min_ns", "max_ns")
        )
        yield Text(f"{'rank ' + str(row['rank']):<24}{format_count(row['steps']):>8}{times}")
    if len(rows) > MAX_RANKS:
        yield Text(
            f"… {format_several(len(rows) - MAX_RANKS, 'more rank')}: sightline stats steps", "dim"
        )


def _ranges(rows: list[dict[str, Any]], left_out: int) -> Iterator[Text]:
    yield Text(f"{'Marked ranges':<44}{'n':>12}{'total':>12}{'mean':>12}", "bold")
    names = fit_texts([row["name"] for row in rows], 43)
    for row, name in zip(rows, names, strict=True):
        yield Text(
            f"{name:<44}{format_count(row['instances']):>12}"
            f"{format_ns(row['total_ns']):>12}{format_ns(row['mean_ns']):>12}"
        )
    if left_out:
        yield Text(f"… {left_out:,} more: sightline stats annotations", "dim")


def _checkpoints(rows: list[dict[str, Any]], left_out: int) -> Iterator[Text]:
    yield Text(f"{'Checkpoints':<36}{'allocated':>14}{'reserved':>14}{'process':>14}", "bold")
    for row in rows:
        sizes = "".join(
            f"{'-' if row[k] is None else format_bytes(row[k]):>14}"
            for k in ("allocated_bytes", "reserved_bytes", "process_bytes")
        )
        waited = " *" if _note_unsure(row) else ""
        yield Text(
            f"{fit_text(row['name'], 26) + waited + '  rank ' + str(row['rank']):<36}{sizes}"
        )
    if left_out:
        yield Text(f"… {left_out:,} more: {_ALL_CHECKPOINTS}", "dim")
    if any(map(_note_unsure, rows)):
        yield Text("* when the host got there: the GPU was not waited for", "dim")


_ALL_CHECKPOINTS = """sightline sql RUN "FROM host_ops WHERE name LIKE 'checkpoint: %'\""""


def _note_unsure(row: dict[str, Any]) -> bool:
    """Whether the GPU's memory may have been another when its work had got there."""
    return row["allocated_bytes"] is not None and not row["synchronized"]


def print_memory(rows: list[dict[str, Any]]) -> Iterator[Text]:
    """What was allocated, one line per rank and device."""
    if not rows:
        return
    heads = ("allocations", "allocated", "freed", "peak", "reserved")
    yield Text(f"{'Memory':<20}" + "".join(f"{head:>12}" for head in heads), "bold")
    several = len({row["rank"] for row in rows}) > 1
    for row in rows[:MAX_RANKS]:
        place = "CPU" if row["device_id"] is None else f"GPU {row['device_id']}"
        sizes = "".join(
            f"{format_bytes(row[k]) if row[k] else '-':>12}"
            for k in ("allocated_bytes", "freed_bytes", "peak_bytes", "reserved_bytes")
        )
        name = f"rank {row['rank']}  {place}" if several else place
        yield Text(f"{name:<20}{format_count(row['allocations']):>12}{sizes}")
    if len(rows) > MAX_RANKS:
        yield Text(f"… {len(rows) - MAX_RANKS} more: sightline report --json", "dim")


_WIDTH = 12  # of a column of counters


def print_counters(rows: list[dict[str, Any]]) -> Iterator[Text]:
    """What was sampled of each series: mean, least, most, and how far energy rose."""
    risen = "risen by" if any(row["metric"] == "energy" for row in rows[:MAX_COUNTERS]) else ""
    head = f"{'Counters':<32}{'mean':>12}{'min':>12}{'max':>12}{risen:>12}"
    yield Text(head.rstrip(), "bold")
    names = fit_texts([_name_series(row) for row in rows[:MAX_COUNTERS]], 32)
    for row, name in zip(rows, names, strict=False):
        rises = row["rise"] if row["metric"] == "energy" else None
        numbers = "".join(f"{_number(row[k], row['unit']):>12}" for k in ("mean", "min", "max"))
        if row["metric"] == "energy":
            numbers = " " * 36
        yield Text(f"{name:<32}{numbers}{_number(rises, row['unit']):>12}".rstrip())
    if len(rows) > MAX_COUNTERS:
        yield Text(f"… {len(rows) - MAX_COUNTERS} more: sightline report --json", "dim")


def _name_series(row: dict[str, Any]) -> str:
    place = "" if row["device_id"] is None else f", GPU {row['device_id']}"
    place += f", {row['source']}" if row["source"] else ""
    unit = "" if row["unit"] in (None, "", "bytes") else f" ({row['unit']})"
    return f"{row['metric']}{place}{unit}"


def _number(value: float | None, unit: str | None) -> str:
    if value is None:
        return ""
    if unit == "bytes":
        return format_bytes(value)
    if value != 0 and not 10 <= abs(value) < 1e8:
        return f"{value:.4g}"
    exact = f"{value:,.1f}"
    # One blank stays between it and the column before.
    return exact if len(exact) < _WIDTH else f"{value:,.0f}"
