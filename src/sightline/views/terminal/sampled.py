"""Sampled kernels as lines of a terminal: where their warps waited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sightline.core.kernel_labels import label_kernels
from sightline.core.text import fit_text
from sightline.core.units import format_count, format_pct, format_several

TOP_KERNELS = 10


_WAITS = 38  # the reason and the line, behind the name


def print_sampled(rows: list[dict[str, Any]], width: int) -> Iterator[str]:
    """The lines about sampled kernels; none if there are none."""
    if not rows:
        return
    count = sum(row["samples"] for row in rows)
    yield f"Sampled kernels · {format_several(count, 'sample')} of their instructions"
    yield ""
    room = width - 26 - _WAITS
    yield f"{'Kernel':<{room}}{'samples':>10}{'share':>8}{'issuing':>9}  waits mostly for, at"
    labels = label_kernels(row["name"] for row in rows[:TOP_KERNELS] if row["name"])
    for row in rows[:TOP_KERNELS]:
        name = fit_text(labels.get(row["name"], "unnamed"), room - 1)
        waits = "—"
        if row["reason"] is not None:
            waits = f"{row['reason']} {format_pct(row['reason_pct'])}"
        if row["line"] is not None:
            waits += f", {row['file'].rsplit('/', 1)[-1]}:{row['line']}"
        yield (
            f"{name:<{room}}{format_count(row['samples']):>10}{format_pct(row['share_pct']):>8}"
            f"{format_pct(row['issuing_pct']):>9}  {fit_text(waits, _WAITS - 2)}"
        ).rstrip()
    if len(rows) > TOP_KERNELS:
        yield f"… and {len(rows) - TOP_KERNELS} more: sightline stats stalls"
    yield "Lines and instructions: sightline stats hot_lines · share: of all samples"
    yield "How near the compute roof they came, at least and at most: sightline roofline"
