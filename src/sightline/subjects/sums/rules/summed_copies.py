"""Copies between host and device take much of what the GPU did, by a table of sums.

Symptom
    Rows such as [CUDA memcpy Host-to-Device] beside the kernels, with as much time.

Why it hurts
    A copy from or to pageable memory is staged by the driver, far below the link's rate, and holds
    the host up; and what waits for a copy does not compute.

Evidence
    The tables of copies by time and by size: how long each direction took, and at which rate.

Threshold
    5 % of the GPU's work (TraceLens agent, 2026-08).

Fix
    Keep the data on the GPU; pin the host's memory; copy in parts on a second stream.

False positives
    Loading data once. Whether copies run beside kernels already, sums do not say: only where the
    host waits for all of it can the bound of the gain be told.

References
    CUDA C++ Best Practices Guide, "Pinned Memory". PCI Express 4.0 x16: 31.5 GB/s in theory, of
    which copies reach 25 (`bandwidthTest` on an A100).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_ns, format_pct, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, build_finding, price_part
from sightline.timeline.copies import SMALL_BYTES
from sightline.timeline.sum_facts import SumFacts, is_serial, read_sums

RULE = Rule("summed-copies", "Copies between host and device")

PINNED_GB_PER_S = 25.0
# What pageable memory rarely exceeds: the rate of pinned memory over PCI Express 3.0 x16.
PAGEABLE_GB_PER_S = 12.0
_UNPINNED = "no call pinned memory: the driver stages each copy"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over both directions."""
    facts = read_sums(run)
    if facts is None:
        return
    moves = facts.copies.filter(pl.col("way").is_in(["HtoD", "DtoH"]) & ~pl.col("unified"))
    cost = int(moves.get_column("ns").sum())
    if not cost or 100 * cost < NOTABLE_PCT * facts.gpu_ns:
        return
    rows = moves.rows(named=True)
    pinned, gain = bool(facts.pinned), _bound_gain(facts, rows)
    price = price_part(cost, gain, facts.repeated_ns, "ns")
    share = format_pct(100 * cost / facts.gpu_ns)
    yield build_finding(
        RULE,
        f"Copies between host and device take {format_ns(cost)}, {share} of the GPU's work: "
        f"{_describe(rows[0])}.",
        Evidence(list(_list_evidence(facts, rows, pinned=pinned))),
        Advice(
            fix=_choose_fix(run, pinned=pinned),
            verify="sightline stats summed_runs AFTER: copy_ns",
            cause=_UNPINNED if facts.pinned is False else None,
        ),
        price=price,
        confidence="medium" if gain else "low",
        method="bound from sums: copies at the rate of pinned memory, hidden behind the kernels"
        if gain
        else None,
        states_limit=2 * cost >= facts.gpu_ns,
    )


def _bound_gain(facts: SumFacts, rows: list[dict[str, Any]]) -> int | None:
    """The most that can be won, ns; None where sums do not bound it."""
    pinned = bool(facts.pinned)
    least = [_bound_copy(row, pinned=pinned) for row in rows]
    if is_serial(facts):
        # Each direction has an engine of its own, beside the kernels.
        stays = facts.gpu_ns - sum(int(row["ns"]) for row in rows)
        return max(facts.gpu_ns - max([stays, *least]), 0)
    return sum(int(row["ns"]) - ns for row, ns in zip(rows, least, strict=True)) or None


def _bound_copy(row: dict[str, Any], *, pinned: bool) -> int:
    """What a direction's copies take at least: at the rate of pinned memory, if they are not."""
    ns, size = int(row["ns"]), int(row["bytes"] or 0)
    if pinned or not size or size < SMALL_BYTES * row["calls"]:
        return ns
    return min(ns, round(size / PINNED_GB_PER_S))


def _describe(row: dict[str, Any]) -> str:
    """'2 copies to the device, 1.76 GB in 260.7 ms (6.8 GB/s)'."""
    where = "to the device" if row["way"] == "HtoD" else "to the host"
    what = f"{format_several(row['calls'], 'copy', 'copies')} {where}"
    if not row["bytes"]:
        return f"{what} in {format_ns(row['ns'])}"
    rate = row["bytes"] / max(row["ns"], 1)
    return f"{what}, {format_bytes(row['bytes'])} in {format_ns(row['ns'])} ({rate:.1f} GB/s)"


def _list_evidence(facts: SumFacts, rows: list[dict[str, Any]], *, pinned: bool) -> Iterator[str]:
    yield from (_describe(row) for row in rows)
    yield f"kernels together: {format_ns(facts.kernel_ns)}"
    rates = [row["bytes"] / row["ns"] for row in rows if row["bytes"] and row["ns"]]
    if rates and pinned and max(rates) >= PAGEABLE_GB_PER_S:
        yield "memory is pinned, and copies run at the link's rate: only fewer bytes help"
    elif rates and min(rates) < PAGEABLE_GB_PER_S:
        yield (
            f"pinned memory reaches {PAGEABLE_GB_PER_S:.0f} GB/s over PCIe 3 x16 and "
            f"{PINNED_GB_PER_S:.0f} over PCIe 4 x16"
        )
    if not is_serial(facts):
        yield "sums do not show whether they already overlap kernels"


def _choose_fix(run: Run, *, pinned: bool) -> str:
    if pinned:
        return (
            "copy less: keep on the GPU what it reuses, and send only new data; then copy in "
            "parts on a second stream, while kernels run"
        )
    return choose_fix(
        run,
        "keep on the GPU what it reuses; pin the host's memory, and copy in parts on a second "
        "stream, while kernels run",
        training="keep tensors on the GPU; pin what is copied (DataLoader(pin_memory=True), "
        "tensor.pin_memory()) and copy with non_blocking=True",
        pytorch="keep tensors on the GPU; pin what is copied (tensor.pin_memory()) and copy with "
        "non_blocking=True",
        compiled="keep on the GPU what it reuses; pin the host's memory (cudaHostAlloc, "
        "cudaHostRegister), and copy in parts with cudaMemcpyAsync on a second stream",
    )
