"""The temporaries that one layer holds at once, where a peak is its own moment."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.run import Run
from sightline.subjects.memory.allocations import (
    MEMORY,
    follow_allocations,
    select_memory,
)
from sightline.subjects.memory.tensor_kinds import add_places, classify_blocks

# Scores of T × T for each head, which a fused attention never writes (Dao et al., FlashAttention,
# arXiv 2205.14135): an own softmax, or a line of an own attention.
SCORES = r"(?i:softmax|scaled_dot|attention_scores|attn_(?:weights|scores))"

# What autograd calls the same steps on their way back; their frames are of C++.
_STEPS_BACK = r"^(?:Bmm|Div|Exp|Sub|Mul|Sum|Max|Amax|Softmax|MaskedFill|Where)Backward\d$"
_OF_ATTENTION = f"{SCORES}|{_STEPS_BACK}"
_LEAST_SCORES = 3  # fewer are any two temporaries (ours)

# The innermost forward() that allocates; where none is known, the function. A script's own lines
# are no function: each stands for itself.
_FUNCTION = (
    pl.when(pl.col("place").str.starts_with("<module>"))
    .then("place")
    .otherwise(pl.col("place").str.replace(r":\d+\)$", ")"))
)
LAYER = pl.coalesce("module", _FUNCTION).alias("layer")


def find_layer_blocks(run: Run, peak: dict[str, Any]) -> pl.DataFrame:
    """The largest set of one layer's large temporaries at a peak, as rows of `peak_blocks`.

    Of each call stack one block, which is at least half as large as the largest of them; no rows
    where no layer has two.
    """
    here = [pl.col(name).eq_missing(peak[name]) for name in MEMORY]
    temporaries = run.ask("peak_blocks").filter(
        *here,
        pl.col("kind") == "temporary",
        pl.col("blocks") == 1,
        pl.col("stack_id").is_not_null(),
    )
    large = temporaries.filter(2 * pl.col("bytes") >= pl.col("bytes").max().over(LAYER))
    sets = [rows for _, rows in large.group_by(LAYER, maintain_order=True) if rows.height > 1]
    return max(sets, key=lambda rows: sum_column(rows, "bytes"), default=large.clear())


def list_large_of_layer(run: Run, peak: dict[str, Any], at_peak: pl.DataFrame) -> pl.DataFrame:
    """All temporaries of the layer that are as large, at any moment, in every layer and step.

    Other blocks of the layer stand where those of its peak would be gone: scores before and after
    they are scaled. `at_peak` is of `find_layer_blocks`.
    """
    blocks = select_memory(follow_allocations(run), classify_blocks(run), peak)
    large = blocks.filter(
        pl.col("kind") == "temporary",
        2 * pl.col("bytes") >= find_largest(at_peak, "largest_bytes"),
    )
    layer = at_peak.select(LAYER).item(0, 0)
    return add_places(run, large).filter(layer == LAYER)


def find_score_blocks(run: Run, peak: dict[str, Any]) -> pl.DataFrame:
    """Blocks at a peak that are as large as the scores of an attention that is written out.

    Rows of `peak_blocks`: those of its softmax, and of its steps' way back, of exactly that size;
    no rows where there are fewer than three.
    """
    here = [pl.col(name).eq_missing(peak[name]) for name in MEMORY]
    alike = run.ask("peak_blocks").filter(
        *here,
        pl.col("bytes") == pl.col("blocks") * pl.col("largest_bytes"),
        pl.col("place").str.contains(_OF_ATTENTION),
    )
    sizes = alike.filter(pl.col("place").str.contains(SCORES)).get_column("largest_bytes")
    sets = [alike.filter(pl.col("largest_bytes") == size) for size in sizes.unique().sort()]
    many = [rows for rows in sets if sum_column(rows, "blocks") >= _LEAST_SCORES]
    return max(many, key=lambda rows: sum_column(rows, "bytes"), default=alike.clear())


def list_blocks_of_size(run: Run, peak: dict[str, Any], size: int) -> pl.DataFrame:
    """All blocks of exactly this size that steps of an attention allocated, at any moment."""
    blocks = select_memory(follow_allocations(run), classify_blocks(run), peak)
    alike = add_places(run, blocks.filter(pl.col("bytes") == size))
    return alike.filter(pl.col("place").str.contains(_OF_ATTENTION))
