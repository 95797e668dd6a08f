"""What the memory holds at its peak, and what makes each kind of it smaller.

Symptom
    A recording of the memory in which nothing is wrong, and which is still full.

Why it hurts
    It need not: it says what would have to be smaller.

Evidence
    The blocks at the peak by what they hold (`sightline stats peak_blocks`), and how much lower the
    peak would be without each kind (`sightline stats memory_what_if`).

Threshold
    None: a remark, about recordings without a timeline.

Fix
    Of the largest kind: in a smaller type, divided over GPUs, computed again, or not made at all.

False positives
    None: it judges nothing.

References
    PyTorch, "Understanding CUDA Memory Usage"; Rajbhandari et al., ZeRO (arXiv 1910.02054),
    section 3, "Where did all the memory go?".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    list_places,
    locate_device,
    name_device,
    select_device,
    write_share,
)
from sightline.subjects.memory.step_results import find_step_results
from sightline.subjects.memory.tensor_kinds import EARLIER

RULE = Rule("memory-at-peak", "What fills the memory at its peak")
_MOST = 4
_LAST_STEP = "the step before's results"
_FIX = {
    "optimizer state": "hold it in 8 bits (bitsandbytes' AdamW8bit: a quarter) or in bf16, divide "
    "it over GPUs (ZeRO-1, FSDP), or use an optimizer with less state (Adafactor, SGD)",
    "gradient": "apply each gradient as it comes (Tensor.register_post_accumulate_grad_hook) "
    "instead of keeping all, hold them in bf16, or divide them over GPUs (ZeRO-2, FSDP)",
    "parameter": "hold the weights in bf16 or fewer bits, divide them over GPUs (FSDP, tensor "
    "parallelism), or keep what is not trained on the host",
    EARLIER: "begin to record before the model is made, to see what it is; weights can be held in "
    "bf16 or fewer bits, or divided over GPUs (FSDP, tensor parallelism)",
    "activation": "compute activations again in the backward pass (torch.utils.checkpoint around "
    "the repeated block), use a smaller batch, or fused attention where T × T scores are kept",
    "temporary": "make the largest of these smaller: in place, in pieces, or by a fused operator",
    _LAST_STEP: "let go of what the step before left (del loss, logits) before the next one "
    "begins, or run under torch.no_grad() where no backward pass follows",
    "input": "load what a step needs in that step, in the type that it is used in",
}
# So much of the peak in a few blocks of one place: what is made there is large as a whole (ours).
_LARGE_PCT, _FEW_BLOCKS = 40.0, 3
_IN_PIECES = (
    "make it in pieces: of a model's logits take the loss in chunks (a fused linear cross-entropy) "
    "or those of the last position alone, hold them in half precision, and let go of the last "
    "round's (del) before the next is made"
)
_OTHERS = "see which lines allocate it:  sightline stats peak_blocks"


def check(run: Run) -> Iterator[Finding]:
    """One remark for each device of a recording of the memory alone."""
    if run.rows("device_ops") or run.rows("host_ops"):
        return
    if not (run.columns("memory_events", ["action"]).get_column("action") == "alloc").any():
        return  # without a history there is no peak, but what is held: memory-held
    for peak in find_device_peaks(run).iter_rows(named=True):
        whole = peak["allocated_bytes"]
        blocks = select_device(run.ask("peak_blocks"), peak)
        kinds = _sum_kinds(run, peak, blocks)
        if kinds.is_empty():
            continue
        most, size = kinds.row(0)
        shares = ", ".join(
            f"{kind} {write_share(b, whole)}" for kind, b in kinds.head(_MOST).rows()
        )
        without = select_device(run.ask("memory_what_if"), peak).filter(
            pl.col("of") == "kind", pl.col("without") == most
        )
        lower = sum_column(without, "gain_bytes")
        place = _find_large(blocks, whole)
        yield build_finding(
            RULE,
            f"At the peak of {format_bytes(whole)} on {name_device(peak)}: {shares}."
            + (f" {place}" if place else ""),
            Evidence(
                [
                    *list_places(blocks.filter(pl.col("kind") == most)),
                    *(
                        [f"without {most}, the peak would be {format_bytes(lower)} lower"]
                        if without.height
                        else []
                    ),
                ],
                where=locate_device(peak),
            ),
            Advice(
                fix=f"where less is needed: {_IN_PIECES if place else _FIX.get(most, _OTHERS)}",
                verify="sightline stats memory_peak AFTER: allocated_bytes",
                sources=("PyTorch, Understanding CUDA Memory Usage", "ZeRO (arXiv 1910.02054)"),
            ),
            price=price_part(size, None, whole, "bytes"),
            method="the blocks that are allocated at the peak",
            severity="info",
        )


def _sum_kinds(run: Run, peak: dict[str, Any], blocks: pl.DataFrame) -> pl.DataFrame:
    """Bytes of each kind at the peak, the most first; the step before's results by themselves."""
    kinds = blocks.group_by("kind").agg(pl.col("bytes").sum())
    results = find_step_results(run, peak)
    if results is not None:
        earlier = pl.col("allocated").is_null()
        moved = (
            results.old.select(
                kind=pl.when(earlier)
                .then(pl.lit(EARLIER))
                .otherwise(pl.col("kind").cast(pl.String)),
                bytes=-pl.col("bytes"),
            ),
            results.old.select(kind=pl.lit(_LAST_STEP), bytes="bytes"),
        )
        kinds = pl.concat([kinds, *moved]).group_by("kind").agg(pl.col("bytes").sum())
    return kinds.filter(pl.col("bytes") > 0).sort("bytes", "kind", descending=[True, False])


def _find_large(blocks: pl.DataFrame, whole: int) -> str | None:
    """What a few blocks of one place are that are most of the peak by themselves."""
    places = (
        blocks.filter(
            pl.col("place").is_not_null() & pl.col("kind").is_in(["temporary", "activation"])
        )
        .group_by("place")
        .agg(pl.col("bytes", "blocks").sum())
        .filter(pl.col("blocks") <= _FEW_BLOCKS, 100 * pl.col("bytes") >= _LARGE_PCT * whole)
        .sort("bytes", "place")
    )
    if places.is_empty():
        return None
    place, size, count = places.row(-1)
    return f"{place} holds {format_bytes(size)} of it in {format_several(count, 'block')}."
