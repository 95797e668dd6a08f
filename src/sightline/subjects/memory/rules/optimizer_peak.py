"""The memory's peak lies in the optimizer's step, in what that allocates.

Symptom
    The most memory is in use while parameters are updated, and not at the end of the forward pass.

Why it hurts
    An update that is written as formulas makes a new tensor for each operation; with tensors as
    large as the vocabulary that is several times their size for a moment, and a new state beside
    the old one where it is not written in place.

Evidence
    Blocks that are in use at the peak and were allocated in a function that steps an optimizer:
    temporaries and states. The gain is how much lower the peak is when all events are gone through
    without the temporaries of these places.

Threshold
    A tenth of the peak (ours, as for fragmentation), in temporaries of the step alone.

Fix
    torch.optim.AdamW(..., fused=True) or foreach=False; in an optimizer of one's own, in-place
    operations (mul_, addcmul_, addcdiv_) under torch.no_grad().

False positives
    A first step allocates the states for good: they count as what is in use, not as what can go.

References
    PyTorch documentation, torch.optim, "fused" and "foreach" implementations: foreach uses more
    memory by the size of the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.memory_stacks import OPTIMIZER, describe_stacks
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    find_peak_without,
    grade_by_room,
    list_places,
    locate_device,
    name_device,
    select_device,
    write_share,
)
from sightline.subjects.memory.tensor_kinds import add_places, classify_blocks

RULE = Rule("optimizer-peak", "The peak lies in the optimizer's step")
LEAST_PCT = 10.0
# A place is the function and the file that allocate: "step (optimizer.py:78)",
# "_single_tensor_adamw (adamw.py:412)".
_STEPS = (
    r"(?i)^(?:step|update|_?(?:single|multi)_tensor\w*|_?fused_?\w*)\s*\(\w*"
    r"(?:optim|adam|sgd|lamb|lion|muon|adagrad|rmsprop|adafactor)\w*\.py"
)
_IS_BRIEF = pl.col("kind") == "temporary"


def _select_in_step(run: Run) -> pl.Expr:
    """Which blocks the step of an optimizer allocates, whoever calls it."""
    stacks = describe_stacks(run)
    mine = stacks.filter(pl.col("phase") == OPTIMIZER).get_column("stack_id")
    known = pl.col("stack_id").is_in(mine.implode()).fill_null(value=False)
    return known | pl.col("place").str.contains(_STEPS).fill_null(value=False)


def check(run: Run) -> Iterator[Finding]:
    """One finding for each device."""
    in_step = _select_in_step(run)
    for peak in find_device_peaks(run).iter_rows(named=True):
        whole = peak["allocated_bytes"]
        made = select_device(run.ask("peak_blocks"), peak).filter(
            _IS_BRIEF | (pl.col("kind") == "optimizer state"), in_step
        )
        brief = made.filter(_IS_BRIEF)
        size = sum_column(made, "bytes")
        # States stay: that the step makes them is how an optimizer works.
        if 100 * sum_column(brief, "bytes") < LEAST_PCT * whole:
            continue
        blocks = add_places(run, classify_blocks(run))
        gain = whole - find_peak_without(run, peak, blocks, _IS_BRIEF & in_step)
        yield build_finding(
            RULE,
            f"{format_bytes(size)} that the optimizer's step allocates are in use at the peak of "
            f"{name_device(peak)}, {write_share(size, whole)} of it.",
            Evidence(list_places(made), where=locate_device(peak)),
            Advice(
                fix="update in place (mul_, addcmul_, addcdiv_ under torch.no_grad()), or use a "
                "fused optimizer: torch.optim.AdamW(..., fused=True)",
                verify="sightline stats peak_blocks AFTER: bytes of temporary",
                cause="each operation of the update makes a tensor of its own",
                sources=("PyTorch, torch.optim: foreach and fused implementations",),
            ),
            severity=grade_by_room(peak),
            price=price_part(size, gain, whole, "bytes"),
            method="replay of all memory events without the step's temporaries",
            confidence="medium",
        )
