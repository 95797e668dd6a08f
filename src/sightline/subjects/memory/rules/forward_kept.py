"""A forward pass keeps what only a backward pass would need, and none follows.

Symptom
    Memory rises with every layer of an inference or an evaluation, and falls at its end.

Why it hurts
    Autograd keeps the inputs and outputs of operators for a backward pass. Without one that memory
    is held for nothing: batches or sequences could be several times larger.

Evidence
    Blocks that the forward pass allocated and released again while it ran, alive at the peak
    (`sightline stats peak_blocks`), two or more of them from one and the same place, which a layer
    releases before the next one comes to it where nothing is kept; and no allocation of a backward
    pass in all of the recording. Where memory ran out, a backward pass may have been meant. Where
    several passes each leave results that are freed in one go only after the next one has made its
    own, both passes' count. The gain is how much lower the
    peak is when all events are gone through without them, less the largest of them and of what
    a pass returns.

Threshold
    Over 40 % of the peak (ours, as for activations that wait for a backward pass); none where the
    results of two passes or more are freed so (a tenth of the peak, as for `two-graphs`).

Fix
    torch.inference_mode() or torch.no_grad() around the forward pass, which keeps neither pass's
    results; `del` of what the pass returned frees one of two. In a training, record the backward
    pass, too.

False positives
    A program that keeps its layers' results itself, as a list of hidden states.

References
    PyTorch, "Autograd mechanics", "Locally disabling gradient computation".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.allocations import follow_allocations, select_memory
from sightline.subjects.memory.memory_stacks import BACKWARD
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    find_peak_without_blocks,
    list_places,
    locate_device,
    name_device,
    select_device,
    write_share,
)
from sightline.subjects.memory.step_results import StepResults, find_undifferentiated
from sightline.subjects.memory.tensor_kinds import classify_blocks

RULE = Rule("forward-kept", "Results kept for a backward pass that never ran")
# Layers are several (ours); two blocks of one place are last time's result beside this one's.
LEAST_PCT, LEAST_BLOCKS = 40.0, 4

_RAN_OUT = (
    "compute them again in the backward pass (torch.utils.checkpoint around the repeated block), "
    "or use a smaller batch; torch.inference_mode() where nothing is trained"
)
_DEL = "del what a pass returned before the next one: that frees one of two; "


def check(run: Run) -> Iterator[Finding]:
    """One finding for each device."""
    peaks = find_device_peaks(run)
    if peaks.is_empty() or (classify_blocks(run).get_column("phase") == BACKWARD).any():
        return
    of_modules = pl.col("kind").is_in(["temporary", "activation"]) & pl.col("module").is_not_null()
    for peak in peaks.iter_rows(named=True):
        whole = peak["allocated_bytes"]
        alive = select_device(run.ask("peak_blocks"), peak).filter(of_modules)
        kept = alive.filter(pl.col("blocks") >= 2)
        last = find_undifferentiated(run, peak)
        earlier = _select_earlier(last)
        size = sum_column(kept, "bytes") + sum_column(earlier, "bytes")
        if last is None and (
            100 * size < LEAST_PCT * whole or sum_column(kept, "blocks") < LEAST_BLOCKS
        ):
            continue
        stacks = pl.col("stack_id").is_in(kept.get_column("stack_id").implode())
        mine = select_memory(follow_allocations(run), classify_blocks(run), peak)
        gone = pl.concat([mine.filter(stacks), earlier], how="diagonal")
        lower = whole - find_peak_without_blocks(run, peak, gone)
        # An operator needs its largest block at least, and what a pass returns its name holds.
        stays = find_largest(kept, "largest_bytes")
        stays += find_largest(last.twins.filter(~stacks), "bytes") if last else 0
        gain = max(0, min(size, lower) - stays)
        passes = "two passes' results" if last else "several layers' at once"
        failed = _list_failed(run, peak)
        ended = not failed.is_empty()
        elsewhere = ended and not select_device(failed, peak).height
        yield build_finding(
            RULE,
            f"{format_bytes(size)} that the forward pass allocated are alive at the peak of "
            f"{name_device(peak)}, {write_share(size, whole)} of it, {passes}, and "
            + (
                f"memory ran out on {name_device(failed.row(0, named=True))} before a backward "
                "pass."
                if elsewhere
                else "memory ran out before a backward pass."
                if ended
                else "no backward pass was recorded that would need them."
            ),
            Evidence(
                [*_describe_last(run, peak, last), *list_places(kept)],
                where=locate_device(peak),
            ),
            Advice(
                fix=_RAN_OUT
                if ended
                else "with torch.inference_mode(): (or torch.no_grad()) around the forward pass; "
                + (_DEL if last else "")
                + "if this is training, record the backward pass, too",
                verify="sightline stats memory_peak AFTER: allocated_bytes",
                cause="autograd keeps the inputs and results of operators for a backward pass",
                sources=("PyTorch, Autograd mechanics",),
            ),
            price=price_part(size, gain, whole, "bytes"),
            method="replay of all memory events without these blocks, less the largest of them",
            severity="info" if elsewhere else None,
            confidence="medium" if last is None else "high",
            title="Results of the forward pass fill the memory" if ended else None,
        )


def _list_failed(run: Run, peak: dict[str, Any]) -> pl.DataFrame:
    """Where memory ran out in this process: what would have come then is not known."""
    failures = run.ask("out_of_memory")
    return failures.filter(pl.col("rank").eq_missing(pl.lit(peak["rank"], pl.Int64)))


def _select_earlier(last: StepResults | None) -> pl.DataFrame:
    """Of the pass before's results, those from before the recording: no stack tells of these."""
    if last is None:
        return pl.DataFrame(schema={"bytes": pl.Int64})
    return last.old.filter(pl.col("allocated").is_null())


def _describe_last(run: Run, peak: dict[str, Any], last: StepResults | None) -> list[str]:
    """What of it is the pass before's, and what the peak loses if that alone is let go."""
    if last is None:
        return []
    lower = peak["allocated_bytes"] - find_peak_without_blocks(run, peak, last.overdue)
    return [
        f"{format_bytes(sum_column(last.old, 'bytes'))} of it is the previous pass's, freed only "
        f"when its name is bound again: del after each pass alone saves {format_bytes(lower)}"
    ]
