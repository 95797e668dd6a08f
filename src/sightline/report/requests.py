"""What calls asked of a GPU, where the GPU itself was not recorded: as data and on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from rich.text import Text

from sightline.kernel_labels import label_kernels
from sightline.model.run import Run
from sightline.text import fit_text
from sightline.units import format_bytes, format_count, format_ns, format_pct, format_several

_MOST = 5
# In the order of the screen: what the calls of a purpose did to the threads that made them.
_PURPOSES = {
    "wait": "waiting for the GPU",
    "copy": "in copies and memsets",
    "launch": "launching",
    "allocate": "allocating and freeing",
    "communicate": "asking for collectives",
    "other": "in other calls",
}


def summarize_requests(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Time by purpose, kernels and copies; empty where the GPU's own work was recorded, too."""
    if run.rows("device_ops") or not run.rows("requests"):
        return {"purposes": [], "kernels": [], "copies": []}
    purposes = (
        run.ask("api_calls")
        .group_by("purpose")
        .agg(pl.col("calls", "own_ns", "calls_per_s", "window_pct").sum())
        .sort("own_ns", "purpose", descending=[True, False])
    )
    kernels = (
        run.ask("requested_kernels")
        .group_by("name")
        .agg(
            pl.col("launches", "failed", "launches_per_s").sum(),
            sizes=pl.len().cast(pl.Int64),
            grid=_most_frequent("grid"),
            block=_most_frequent("block"),
        )
        .sort("launches", "name", descending=[True, False])
    )
    copies = (
        run.ask("requested_copies")
        .group_by("kind", "copy_kind", "is_async")
        .agg(pl.col("copies", "failed", "bytes", "call_ns").sum())
        .sort("call_ns", "kind", "copy_kind", descending=[True, False, False])
    )
    return {
        "purposes": purposes.to_dicts(),
        "kernels": kernels.head(_MOST).to_dicts(),
        "copies": copies.head(_MOST).to_dicts(),
    }


def _most_frequent(what: str) -> pl.Expr:
    """The size that most launches had, as text: 7×5×3."""
    text = pl.format("{}×{}×{}", f"{what}_x", f"{what}_y", f"{what}_z")
    return text.sort_by("launches", descending=True).first()


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
