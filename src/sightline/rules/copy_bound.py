"""Copies run while neither compute nor communication does.

Symptom
    The device copies, and nothing runs beside it.

Why it hurts
    A copy over PCIe moves some tens of GB/s, device memory thousands: data that goes back and
    forth costs a hundred times what it costs to keep it.

Evidence
    Exposed copy and fill time (`sightline stats breakdown`), by direction and memory kind
    (`sightline stats memcpy`).

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: copies flagged above 5 % of the time).

Fix
    Host to device: pin the memory and copy on a side stream (pin_memory=True,
    non_blocking=True), keep weights on the device. Device to host: read back less, later.

False positives
    Loading weights once at start: choose the window with --window.

References
    NVIDIA, CUDA C++ Best Practices Guide, "Data Transfer Between Host and Device".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.algebra.scalars import largest, total
from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.units import format_bytes, format_count, format_ns, format_pct

RULE = Rule("copy-bound", "Copies are not hidden behind compute")

COPY_PCT = 5.0

_FIX = {
    "HtoD": "keep the data on the GPU; else copy ahead from pinned memory on a side stream "
    "(pin_memory=True, .to(device, non_blocking=True))",
    "DtoH": "read back less and later: copy to pinned memory with non_blocking=True, once per "
    "several steps",
    "DtoD": "avoid the copy: write in place, keep one layout, drop .contiguous() and .clone()",
}


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    rows = run.ask("breakdown")
    cost = total(rows, "exposed_copy_ns")
    pct = 100 * cost / max(total(rows, "window_ns"), 1)
    if pct < COPY_PCT:
        return
    copies = (
        run.ask("memcpy")
        .group_by("kind", "copy_kind", "src_kind", "dst_kind")
        .agg(pl.col("copies", "total_ns", "bytes").sum())
        .sort("total_ns", descending=True)
    )
    main = copies.row(0, named=True)
    evidence = tuple(_line(row) for row in copies.head(3).iter_rows(named=True))
    direction = main["copy_kind"] or main["kind"]
    yield Finding(
        rule=RULE.name,
        title=RULE.name,
        severity="critical" if pct >= 30 else "warning",
        summary=(
            f"{format_pct(pct)} of the window is copying or filling with nothing beside it, "
            f"mostly {direction}."
        ),
        cost_ns=cost,
        cost_pct=pct,
        gain_ns=largest(rows, "exposed_copy_ns"),
        confidence="high",
        evidence=evidence,
        where={"copy_kind": main["copy_kind"], "src_kind": main["src_kind"]},
        fix=_FIX.get(direction, "fill less often: reuse buffers that are overwritten anyway"),
        verify="sightline stats breakdown AFTER: exposed_copy_pct under 5",
    )


def _line(row: dict[str, object]) -> str:
    """'904 × memcpy HtoD pinned → device, 25.48 GB in 920 ms (27.7 GB/s)'."""
    parts = [f"{format_count(row['copies'])} × {row['kind']}"]  # type: ignore[arg-type]
    if row["copy_kind"]:
        parts.append(str(row["copy_kind"]))
    if row["src_kind"]:
        parts.append(f"{row['src_kind']} → {row['dst_kind']}")
    text = " ".join(parts)
    size, ns = row["bytes"], row["total_ns"]
    if isinstance(size, int) and isinstance(ns, int) and ns:
        return f"{text}, {format_bytes(size)} in {format_ns(ns)} ({size / ns:.1f} GB/s)"
    return f"{text}, {format_ns(ns)}"  # type: ignore[arg-type]
