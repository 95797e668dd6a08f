"""An allocation failed: the device had no memory left that could serve it.

Symptom
    torch.OutOfMemoryError, or a slow step in which the allocator gave everything back and tried
    again.

Why it hurts
    The program ends, or frees its cache and waits for the driver at every retry.

Evidence
    The events of failed allocations, what was free at that moment and in which pieces
    (`sightline stats out_of_memory`), and what fills the memory (`sightline stats peak_blocks`).
    The cost is what was asked for and could not be had.

Threshold
    One failure.

Fix
    Where enough was free but in pieces: expandable segments. Else what fills the memory must
    shrink: the other findings say what and by how much.

False positives
    A program that probes for the largest batch fails on purpose; a failure that the allocator
    answers by emptying its cache is no end of the program.

References
    PyTorch, "Understanding CUDA Memory Usage"; "CUDA semantics", "Optimizing memory usage".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_count, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.rules._shared import (
    EXPANDABLE,
    list_places,
    locate_device,
    name_device,
)

RULE = Rule("out-of-memory", "Out of memory")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding: the last failure of the device that had most of them."""
    if not run.rows("memory_events"):
        return
    failures = run.ask("out_of_memory")
    if failures.is_empty():
        return
    most = (
        failures.group_by("rank", "device_id").len().sort("len", "rank", descending=[True, False])
    )
    here = failures.join(most.head(1), on=["rank", "device_id"], nulls_equal=True).sort("event")
    last = here.row(-1, named=True)
    asked = last["asked_bytes"] or 0
    free = last["free_bytes"]
    in_pieces = free is not None and free >= asked
    yield build_finding(
        RULE,
        f"{format_bytes(asked)} could not be allocated on {name_device(last)}: "
        + _describe_free(last),
        Evidence(
            [
                f"asked for at {last['place'] or 'a place without a stack'}",
                f"{format_bytes(last['allocated_bytes'])} were allocated, "
                f"{format_bytes(last['reserved_bytes'])} taken from the driver, which had "
                f"{format_bytes(last['device_free_bytes'])} left",
                f"{format_several(here.height, 'failure')} in the recording",
                *_list_pins(run, last),
            ],
            where=locate_device(last),
        ),
        Advice(
            fix=f"{EXPANDABLE}: enough is free, but in pieces"
            if in_pieces
            else "shrink what fills the memory: see the other findings, and  sightline memory",
            verify="sightline stats out_of_memory AFTER: no rows",
            cause="free memory is in pieces, each too small" if in_pieces else "the memory is full",
            sources=("PyTorch, CUDA semantics: Optimizing memory usage",),
        ),
        price=price_part(asked, asked, last["reserved_bytes"] or asked, "bytes"),
        method="what was asked for: with so much more, this allocation does not fail",
        severity="critical",
        states_limit=True,
    )


def _describe_free(last: dict[str, Any]) -> str:
    free = last["free_bytes"]
    if free is None:
        return "the recording has no segments that would say what was free."
    return (
        f"{format_bytes(free)} were free in {format_count(last['pieces'])} pieces of at most "
        f"{format_bytes(last['largest_free_bytes'])}."
    )


def _list_pins(run: Run, last: dict[str, Any]) -> list[str]:
    """Who held most when it failed."""
    held = run.ask("peak_blocks").filter(
        pl.col("rank") == last["rank"], pl.col("device_id").eq_missing(last["device_id"])
    )
    return [f"at the peak {line}" for line in list_places(held, 2)]
