"""What a memory is full of, by kind, and how each kind is made smaller."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.subjects.memory.step_results import find_step_results
from sightline.subjects.memory.tensor_kinds import EARLIER

_LAST_STEP = "the previous step's results"
_FIX = {
    "optimizer state": "hold it in 8 bits (bitsandbytes' AdamW8bit: a quarter) or in bf16, divide "
    "it over GPUs (ZeRO-1, FSDP), or use an optimizer with less state (Adafactor, SGD)",
    "gradient": "apply each gradient as soon as it is computed "
    "(Tensor.register_post_accumulate_grad_hook) instead of keeping all, hold them in bf16, or "
    "divide them over GPUs (ZeRO-2, FSDP)",
    "parameter": "hold the weights in bf16 or fewer bits, divide them over GPUs (FSDP, tensor "
    "parallelism), or keep what is not trained on the host",
    EARLIER: "begin to record before the model is made, to see what it is; weights can be held in "
    "bf16 or fewer bits, or divided over GPUs (FSDP, tensor parallelism)",
    "activation": "compute activations again in the backward pass (torch.utils.checkpoint around "
    "the repeated block), use a smaller batch, or fused attention where T × T scores are kept",
    "temporary": "make the largest of these smaller: in place, in pieces, or by a fused operator",
    _LAST_STEP: "free what the previous step left (del loss, logits) before the next one begins, "
    "or run under torch.no_grad() where no backward pass follows",
    "input": "load what a step needs in that step, in the type that it is used in",
}
_OTHERS = "see which lines allocate it:  sightline stats peak_blocks"


def advise_less(kind: str) -> str:
    """How less of that kind is held."""
    return _FIX.get(kind, _OTHERS)


def sum_kinds(run: Run, peak: dict[str, Any], blocks: pl.DataFrame) -> pl.DataFrame:
    """Bytes of each kind at the peak, the most first; the previous step's results by themselves."""
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
