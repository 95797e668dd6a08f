"""From what all rules say to one list: one problem once, the most important first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import polars as pl

from sightline.model.declare import Finding

_LOWER = {"high": "medium", "medium": "low", "low": "low"}
# Who waits for a late rank, and what that rank itself is late with, are one problem.
_LATE = ("straggler-rank", "imbalance")
_WHY_LATE = (
    "host-late",
    "dataloader-starved",
    "allocator-churn",
    "jit-or-module-load-in-window",
    "sync-in-step",
    "launch-bound",
)


def ranked(found: Iterable[Finding], gate: pl.DataFrame) -> list[Finding]:
    """Merged, graded by the data-quality gate, the largest gain first, abstentions last.

    Gains of the program's window come before those of profiled kernels, which a kernel profiler
    runs one by one, with other clocks: the two are no measure for each other.
    """
    graded = [_graded(f, gate) for f in _merged(list(found))]
    return sorted(
        graded,
        key=lambda f: (
            f.abstained,
            f.severity == "info",
            is_of_kernels(f.rule),
            -(f.gain_ns or 0),
            f.rule,
        ),
    )


def is_of_kernels(rule: str) -> bool:
    """Whether a rule's costs are shares of what a kernel profiler timed, not of the window."""
    return rule.startswith("ncu-")


def _merged(found: list[Finding]) -> list[Finding]:
    """A finding about late ranks takes in what these ranks alone are late with."""
    for i, main in enumerate(found):
        if main.rule not in _LATE or main.abstained:
            continue
        ranks = set(main.where["late_ranks"])
        mine = [
            f
            for f in found
            if f.rule in _WHY_LATE and not f.abstained and set(f.where["ranks"]) <= ranks
        ]
        if not mine:
            continue
        why = max(mine, key=lambda f: f.gain_ns or 0)
        found[i] = replace(
            main,
            gain_ns=max(main.gain_ns or 0, why.gain_ns or 0),
            cause=f"{why.rule} on these ranks: {why.cause}",
            evidence=(*main.evidence, *(f"{f.rule} there: {f.summary}" for f in mine)),
            fix=f"on these ranks: {why.fix}",
        )
        return [f for f in found if f not in mine]
    return found


def _graded(found: Finding, gate: pl.DataFrame) -> Finding:
    """One grade less of confidence where the gate says that something is lost."""
    if found.abstained:
        return found
    limits = tuple(gate.filter(pl.col("effect") == "lowers").get_column("text"))
    if not limits:
        return found
    return replace(found, confidence=_LOWER[found.confidence], limits=limits)
