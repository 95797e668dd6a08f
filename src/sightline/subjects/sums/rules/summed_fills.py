"""Memsets take much of what the GPU did, by a table of sums.

Symptom
    A row [CUDA memset] with gigabytes beside the kernels.

Why it hurts
    What is overwritten anyway need not be cleared, and a buffer need only be cleared as far as it
    is used.

Evidence
    The tables of memory operations by time and size.

Threshold
    5 % of the GPU's work.

Fix
    Clear only what is read before it is written.

False positives
    Memsets that run beside kernels cost nothing.

References
    CUDA Runtime API, "Memory Management".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_note, format_ns, format_pct
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, build_finding, price_part
from sightline.timeline.sum_facts import read_sums

RULE = Rule("summed-fills", "Memsets")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding."""
    facts = read_sums(run)
    if facts is None or not facts.fill_ns or 100 * facts.fill_ns < NOTABLE_PCT * facts.gpu_ns:
        return
    ns, calls, size = facts.fill_ns, facts.fill_calls, facts.fill_bytes
    lines = [f"kernels together: {format_ns(facts.kernel_ns)}"]
    if size:
        mean = format_bytes(size // max(calls, 1))
        lines.insert(0, f"{format_bytes(size)} were cleared, {mean} each ({size / ns:.0f} GB/s)")
    yield build_finding(
        RULE,
        f"{format_note(calls, f'memsets take {format_ns(ns)}')}, "
        f"{format_pct(100 * ns / facts.gpu_ns)} of the GPU's work.",
        Evidence(lines),
        Advice(
            fix="clear only what is read before it is written, and only as far as it is used; or "
            "let the kernel that writes first set it",
            verify="sightline stats summed_runs AFTER: fill_ns",
        ),
        price=price_part(ns, ns, facts.repeated_ns, "ns"),
        confidence="medium",
        method="bound from sums: no memset at all",
    )
