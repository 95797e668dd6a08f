"""What a step leaves behind that is freed in one go only after the next step has made its own.

`loss = step(batch)` makes the new graph before the name lets go of the old one. The old results are
blocks that are alive at the peak and freed later with no allocation between their frees, while as
many of the same sizes have come since: their twins. A backward pass, which frees activations, too,
allocates a gradient for nearly each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.subjects.memory.allocations import (
    EVENT,
    follow_allocations,
    select_live,
    select_memory,
)
from sightline.subjects.memory.memory_stacks import BACKWARD, OPTIMIZER
from sightline.subjects.memory.tensor_kinds import add_places, classify_blocks

# Four fifths of the bytes have a twin; eight blocks and three sizes at least, a tenth of the peak
# (ours: a graph is many tensors of few shapes, and less is not worth a change).
TWINS, LEAST_BLOCKS, LEAST_SIZES, LEAST_PCT = 0.8, 8, 3, 10.0
# A layer returns three things at most: its hidden states, keys and values (ours, after
# transformers' ModelOutput); a graph keeps more of each.
LEAST_STEPS, LEAST_STACKS = 2, 4
_OF_STEPS = pl.col("kind").is_in(["temporary", "activation"]) & pl.col("stack_id").is_not_null()


class StepResults(NamedTuple):
    """The last step's results, and those of all steps of the recording.

    `old`: the last step's blocks at the peak, as `classify_blocks` has them. `twins`: the blocks
    of the new step that stand beside them. `overdue`: the old results of each step, from the end
    of their own step (`allocated`) to their release. `steps`: of how many steps these are.
    """

    old: pl.DataFrame
    twins: pl.DataFrame
    overdue: pl.DataFrame
    steps: int


def is_never_differentiated(run: Run) -> bool:
    """Whether no block of the recording was allocated by a backward pass or an optimizer."""
    phases = classify_blocks(run).get_column("phase")
    return not phases.is_in([BACKWARD, OPTIMIZER]).any()


def find_undifferentiated(run: Run, peak: dict[str, Any]) -> StepResults | None:
    """The step before's results at a peak, where no backward pass ever wants them.

    Two steps' results at least were freed without one, since a single one may be a training of
    which the recording has no more; and what is there was made in `forward`, by more lines than
    return something: a program that runs without gradients may keep what its model returns.
    """
    if not is_never_differentiated(run):
        return None
    results = find_step_results(run, peak)
    if results is None or results.steps < LEAST_STEPS:
        return None
    in_module = add_places(run, results.twins).filter(pl.col("module").is_not_null())
    is_most = 2 * sum_column(in_module, "bytes") > sum_column(results.old, "bytes")
    lines = in_module.get_column("stack_id").n_unique()
    return results if is_most and lines >= LEAST_STACKS else None


def find_step_results(run: Run, peak: dict[str, Any]) -> StepResults | None:
    """What the step before left at a peak (a row of `memory_peak`); None where there is no such."""
    found = follow_allocations(run)
    blocks = select_memory(found, classify_blocks(run), peak).filter(
        pl.col("allocated").is_null() | _OF_STEPS
    )
    made = select_memory(found, found.blocks, peak).get_column("allocated").drop_nulls().sort()
    # Blocks are freed in one go where as many allocations came before each of the frees.
    freed = blocks.drop_nulls("released")
    freed = freed.with_columns(go=made.search_sorted(freed.get_column("released")))
    live = select_live(freed, peak["event"])
    least = LEAST_PCT / 100 * peak["allocated_bytes"]
    for go in _list_large(live, least).get_column("go").to_list():
        old = live.filter(pl.col("go") == go)
        since = select_live(blocks, peak["event"]).filter(
            pl.col("allocated").is_not_null(),
            pl.col("released").is_null() | (pl.col("released") > old.get_column("released").max()),
        )
        twins = _find_twins(old, since)
        if sum_column(twins, "bytes") >= TWINS * sum_column(old, "bytes"):
            return _follow_steps(freed, old, twins)
    return None


def _list_large(blocks: pl.DataFrame, least: float) -> pl.DataFrame:
    """What is freed in one go and is large and various enough for a step's results, in order."""
    return (
        blocks.group_by("go")
        .agg(pl.len(), pl.col("bytes").sum(), sizes=pl.col("bytes").n_unique())
        .filter(
            pl.col("len") >= LEAST_BLOCKS,
            pl.col("sizes") >= LEAST_SIZES,
            pl.col("bytes") >= least,
        )
        .sort("go")
    )


def _find_twins(old: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Those of the other blocks that are as large as old ones, one for each.

    Of the same stack, where that of the old one is known: that of blocks from before is not.
    """
    known = old.get_column("allocated").is_not_null()
    parts = []
    for mine, keys in ((old.filter(known), ["stack_id", "bytes"]), (old.filter(~known), ["bytes"])):
        rank = pl.int_range(pl.len()).over(keys).alias("rank")
        wanted = mine.select(*keys, rank)
        parts.append(others.with_columns(rank).join(wanted, on=[*keys, "rank"]).drop("rank"))
    return pl.concat(parts)


def _follow_steps(freed: pl.DataFrame, old: pl.DataFrame, twins: pl.DataFrame) -> StepResults:
    """The old results of all steps: those freed in one go that are as large as these, by sizes."""
    sizes = old.get_column("bytes").unique()
    alike = freed.filter(pl.col("bytes").is_in(sizes.implode())).with_columns(
        begins=pl.col("allocated").fill_null(-1)
    )
    overdue: list[pl.DataFrame] = []
    end: Any = None
    for go in _list_large(alike, TWINS * sum_column(old, "bytes")).get_column("go").to_list():
        mine = alike.filter(pl.col("go") == go)
        # A step ends where the results of the one before it are freed: what is allocated later is
        # the next step's. The first of the recording ends with most of its allocations.
        if end is None:
            end = int(mine.get_column("begins").quantile(0.9, "nearest") or 0)
        else:
            mine = mine.filter(pl.col("begins") <= end)
        overdue.append(mine.with_columns(pl.col("begins").clip(lower_bound=pl.lit(end, EVENT))))
        end = alike.filter(pl.col("go") == go).get_column("released").min()
    begins = pl.when(pl.col("begins") >= 0).then("begins")
    spans = pl.concat(overdue).select("released", "bytes", "stack_id", "kind", allocated=begins)
    return StepResults(old, twins, spans, len(overdue))
