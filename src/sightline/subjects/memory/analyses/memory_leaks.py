"""Call stacks whose memory grows from step to step.

At the end of each step, the bytes that a call stack allocated and that are still allocated are
added up. A stack leaks where they grow: its slope is the median of the slopes between all pairs of
steps (Theil-Sen), and `p_value` the probability that a series without a trend rises as often as it
did (sign test over consecutive steps). The first step is left out: caches and optimizer state
appear in it.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from math import comb
from statistics import median

import polars as pl

from sightline.core.model.columns import RANK, join, make_empty, number, real, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.memory.allocations import NUMBER, follow_allocations
from sightline.subjects.memory.memory_steps import add_step, find_steps
from sightline.subjects.memory.tensor_kinds import add_places

ANALYSIS = Analysis(
    "memory_leaks",
    "Which call stacks hold more memory after each step?",
    (
        RANK,
        number("device_id", "device"),
        text("place", "the innermost line of the user's own code"),
        size("bytes_per_step", "slope: what is added in a step"),
        size("first_bytes", "held at the end of the first step that counts"),
        size("last_bytes", "held at the end of the last step"),
        number("steps", "steps that were compared"),
        number("rises", "steps at whose end more was held than a step before"),
        number("falls", "steps at whose end less was held"),
        real("p_value", "probability of this many rises without a trend"),
        number("blocks", "blocks that are still allocated"),
        join("stack_id", "stacks.stack_id", "the call stack"),
    ),
    needs=("memory_events",),
    notes=("Steps are the program's annotations, else told from the optimizer's allocations.",),
)

_MOST_STEPS = 512  # for the slopes of all pairs; of more steps, evenly spread ones are taken


def run(run: Run) -> pl.DataFrame:
    """One row per call stack that rose more often than it fell, the steepest first."""
    steps = find_steps(run)
    names = [column.name for column in ANALYSIS.columns]
    if steps.height < 3:
        return make_empty(ANALYSIS.columns)
    found = follow_allocations(run)
    blocks = found.blocks.select("memory", "stack_id", "bytes", "allocated", "released").filter(
        pl.col("allocated").is_not_null()
    )
    blocks = add_step(add_step(blocks, steps, "allocated", "made"), steps, "released", "gone")
    count = steps.group_by("memory").agg(count=pl.len().cast(pl.Int64))
    by = ["memory", "stack_id", "count"]
    kept = (
        blocks.join(count, on="memory")
        .filter(
            pl.col("made") < pl.col("count"),
            (pl.col("gone") > pl.col("made")).fill_null(value=True),
        )
        .group_by(*by, "made", "gone")
        .agg(pl.col("bytes").sum(), blocks=pl.len().cast(pl.Int64))
    )
    rows = []
    for key, group in kept.group_by(by):
        held = _sum_by_step(group, int(str(key[2])))[1:]
        rises = sum(b > a for a, b in pairwise(held))
        falls = sum(b < a for a, b in pairwise(held))
        if rises <= falls:
            continue
        rows.append(
            dict(zip(by, key, strict=True))
            | {
                "bytes_per_step": round(_find_slope(held)),
                "first_bytes": held[0],
                "last_bytes": held[-1],
                "steps": len(held),
                "rises": rises,
                "falls": falls,
                "p_value": _test_signs(rises, rises + falls),
                "blocks": group.filter(pl.col("gone").is_null()).get_column("blocks").sum(),
            }
        )
    if not rows:
        return make_empty(ANALYSIS.columns)
    leaks = pl.DataFrame(
        rows, schema_overrides={"memory": NUMBER, "stack_id": pl.Int64}, infer_schema_length=None
    ).join(found.memories, on="memory")
    return (
        add_places(run, leaks)
        .sort("bytes_per_step", "memory", "stack_id", descending=[True, False, False])
        .select(names)
    )


def _sum_by_step(blocks: pl.DataFrame, steps: int) -> list[int]:
    """Bytes that are held at the end of each step."""
    change = [0] * (steps + 1)
    for made, gone, count in blocks.select("made", "gone", "bytes").iter_rows():
        change[made] += count
        if gone is not None:
            change[gone] -= count
    held, total = [], 0
    for step in range(steps):
        total += change[step]
        held.append(total)
    return held


def _find_slope(held: list[int]) -> float:
    stride = max(1, len(held) // _MOST_STEPS)
    points = list(enumerate(held))[::stride]
    slopes = [(b - a) / (j - i) for (i, a), (j, b) in combinations(points, 2)]
    return median(slopes) if slopes else 0.0


def _test_signs(rises: int, changes: int) -> float:
    """One-sided: at least so many rises among so many changes, each as likely up as down."""
    return float(sum(comb(changes, k) for k in range(rises, changes + 1)) / 2**changes)
