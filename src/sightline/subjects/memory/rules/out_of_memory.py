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
    answers by emptying its cache is not an end of the program.

References
    PyTorch, "Understanding CUDA Memory Usage"; "CUDA semantics", "Optimizing memory usage".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.memory_stacks import BACKWARD
from sightline.subjects.memory.rules._kinds import advise_less, sum_kinds
from sightline.subjects.memory.rules._shared import (
    EXPANDABLE,
    find_device_peaks,
    list_places,
    locate_device,
    name_device,
    select_device,
)
from sightline.subjects.memory.tensor_kinds import classify_blocks

RULE = Rule("out-of-memory", "Out of memory")
# A GPU that needs so many times what the next one does has more than its share of the work (ours).
_UNEVEN = 2
_EVENLY = "; divide the work evenly between the GPUs (by edges or tokens instead of samples)"


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
    others = list(_compare_devices(run, last))
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
                *others,
            ],
            where=locate_device(last),
        ),
        Advice(
            fix=f"{EXPANDABLE}: enough is free, but in pieces"
            if in_pieces
            else f"{_advise_less(run, last)}{_EVENLY if others else ''}",
            verify="sightline stats out_of_memory AFTER: no rows",
            cause="free memory is in pieces, each too small" if in_pieces else "the memory is full",
            sources=("PyTorch, CUDA semantics: Optimizing memory usage",),
        ),
        price=price_part(asked, asked, last["reserved_bytes"] or asked, "bytes"),
        method="the requested size: with that much more memory, this allocation would succeed",
        severity="critical",
        states_limit=True,
    )


def _describe_free(last: dict[str, Any]) -> str:
    free = last["free_bytes"]
    if free is None:
        return "the recording has no segments that would say what was free."
    return (
        f"{format_bytes(free)} were free in {format_several(last['pieces'], 'piece')} of at most "
        f"{format_bytes(last['largest_free_bytes'])}."
    )


def _list_pins(run: Run, last: dict[str, Any]) -> list[str]:
    """Who held most when it failed."""
    held = run.ask("peak_blocks").filter(
        pl.col("rank") == last["rank"], pl.col("device_id").eq_missing(last["device_id"])
    )
    return [f"at the peak {line}" for line in list_places(held, 2)]


def _advise_less(run: Run, last: dict[str, Any]) -> str:
    """How what fills the memory is made smaller."""
    peaks = select_device(find_device_peaks(run), last)
    blocks = select_device(run.ask("peak_blocks"), last)
    kinds = sum_kinds(run, peaks.row(0, named=True), blocks) if peaks.height else pl.DataFrame()
    if kinds.is_empty():
        return "shrink what fills the memory: see the other findings, and  sightline memory"
    kind = kinds.row(0)[0]
    # What a forward pass has made is no temporary where memory ran out before a backward pass.
    is_forward = kind == "temporary" and _ended_in_forward(run, blocks)
    return f"shrink what fills the memory: {advise_less('activation' if is_forward else kind)}" + (
        "; torch.inference_mode() where nothing is trained" if is_forward else ""
    )


def _ended_in_forward(run: Run, blocks: pl.DataFrame) -> bool:
    """Whether several results of modules wait, and no backward pass was reached."""
    if (classify_blocks(run).get_column("phase") == BACKWARD).any():
        return False
    kept = blocks.filter(pl.col("module").is_not_null(), pl.col("blocks") >= 2)
    return 2 * (kept.get_column("bytes").sum()) >= blocks.get_column("bytes").sum()


def _compare_devices(run: Run, last: dict[str, Any]) -> Iterator[str]:
    """What the GPU that needs most beside this one has at its peak, where that is far less."""
    peaks = find_device_peaks(run).filter(pl.col("rank").eq_missing(last["rank"]))
    beside = peaks.filter(pl.col("device_id") != last["device_id"])
    if beside.is_empty():
        return
    most = beside.row(0, named=True)
    if last["allocated_bytes"] >= _UNEVEN * most["allocated_bytes"]:
        yield f"{name_device(most)} needed {format_bytes(most['allocated_bytes'])} at most"
