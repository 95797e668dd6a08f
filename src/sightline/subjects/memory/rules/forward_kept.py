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
    pass in all of the recording. One block of the largest place stays in the gain.

Threshold
    Over 40 % of the peak (ours, as for activations that wait for a backward pass).

Fix
    torch.inference_mode() or torch.no_grad() around the forward pass. In a training, record the
    backward pass, too.

False positives
    A program that keeps its layers' results itself, as a list of hidden states.

References
    PyTorch, "Autograd mechanics", "Locally disabling gradient computation".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.memory_stacks import BACKWARD
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    list_places,
    locate_device,
    name_device,
    select_device,
    write_share,
)
from sightline.subjects.memory.tensor_kinds import classify_blocks

RULE = Rule("forward-kept", "Results kept for a backward pass that never ran")
# Layers are several (ours); two blocks of one place are last time's result beside this one's.
LEAST_PCT, LEAST_BLOCKS = 40.0, 4


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
        size = sum_column(kept, "bytes")
        if 100 * size < LEAST_PCT * whole or sum_column(kept, "blocks") < LEAST_BLOCKS:
            continue
        yield build_finding(
            RULE,
            f"{format_bytes(size)} that the forward pass allocated are alive at the peak of "
            f"{name_device(peak)}, {write_share(size, whole)} of it, several layers' at once, and "
            "no backward pass was recorded that would need them.",
            Evidence(list_places(kept), where=locate_device(peak)),
            Advice(
                fix="with torch.inference_mode(): (or torch.no_grad()) around the forward pass; if "
                "this is a training, record the backward pass, too",
                verify="sightline stats memory_peak AFTER: allocated_bytes",
                cause="autograd keeps the inputs and results of operators for a backward pass",
                sources=("PyTorch, Autograd mechanics",),
            ),
            price=price_part(size, size - find_largest(kept, "largest_bytes"), whole, "bytes"),
            method="these blocks at the peak, less the largest of them",
            confidence="medium",
        )
