"""Sampled kernels and their bounds as text, where a chart would need what nobody counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sightline.core.kernel_labels import label_kernels
from sightline.core.text import fit_text
from sightline.core.units import format_count, format_pct

_NAME = 26
_PRECISION = 12
_BOUNDS = 17


def draw_bounds(rows: Sequence[dict[str, Any]], device: str | None, top: int) -> str:
    """A table of the rows of `sampled_roofline`, at most `top`, in lines of 80 at most."""
    return "\n".join(_draw(rows, device, top)) + "\n"


def _draw(rows: Sequence[dict[str, Any]], device: str | None, top: int) -> Iterator[str]:
    yield f"Bounds from samples · {device or 'unknown device'} · nothing was counted"
    yield ""
    yield (
        f"{'Kernel':<{_NAME}}{'samples':>8}  {'issue slots':<{_BOUNDS}}"
        f"{'arithmetic':<{_PRECISION}}of its ceiling"
    )
    labels = label_kernels(row["name"] for row in rows[:top] if row["name"])
    last = None
    for row in rows[:top]:
        name = fit_text(labels.get(row["name"], "unnamed"), _NAME - 1)
        samples, issue = format_count(row["samples"]), _format_bounds(row, "issue")
        is_first = row["kernel_id"] != last
        last = row["kernel_id"]
        if not is_first:
            name = samples = issue = ""
        precision = (row["precision"] or "none met").replace("_", " ")
        yield (
            f"{name:<{_NAME}}{samples:>8}  {issue:<{_BOUNDS}}{precision:<{_PRECISION}}"
            f"{_format_bounds(row, 'of_peak') if row['precision'] else ''}"
        ).rstrip()
        if is_first and row["bound"]:
            yield f"  bound by {row['bound']}"
    if len(rows) > top:
        yield f"… and {len(rows) - top} more: sightline stats sampled_roofline"
    yield ""
    yield "At least and at most (95 %), if at least half of the warps that fit were active."
    yield "Traffic of device memory is in no sample: ncu --set full counts it."


def _format_bounds(row: dict[str, Any], what: str) -> str:
    low, high = row[f"{what}_low_pct"], row[f"{what}_high_pct"]
    if low is None or high is None:
        return "not known"
    return f"{format_pct(low).removesuffix(' %')} to {format_pct(high)}"
