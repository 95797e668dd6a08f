"""What blocks of memory hold: parameters, gradients, optimizer state, activations, and the rest.

An allocator does not know. It follows from what the program did when a block was allocated (its
call stack), and from what it did when the block was released:

| kind | allocated | released |
|---|---|---|
| parameter | while a module was made, moved or loaded | later, or never |
| optimizer state | in the optimizer's code | not in the same step of it |
| gradient | in the backward pass | after it |
| activation | in the forward pass | in the backward pass (less sure: later, or never) |
| input | by a copy outside of all of these | later |
| temporary | anywhere | in the same stretch of the same activity |
"""

from __future__ import annotations

import polars as pl

from sightline.model.run import Run
from sightline.timeline.allocations import follow_allocations
from sightline.timeline.memory_stacks import (
    BACKWARD,
    COPY,
    FORWARD,
    OPTIMIZER,
    OTHER,
    SETUP,
    describe_stacks,
)

EARLIER = "from earlier"  # allocated before the first event
KINDS = (
    "parameter", "gradient", "optimizer state", "activation", "input", "temporary", "other", EARLIER
)  # fmt: skip


def classify_blocks(run: Run) -> pl.DataFrame:
    """The blocks of a run with place, module, phase, kind and confidence (high, medium or low)."""
    return run.once(_classify)


def _classify(run: Run) -> pl.DataFrame:
    stacks = describe_stacks(run)
    blocks = follow_allocations(run).blocks.join(
        stacks, on="stack_id", how="left", maintain_order="left"
    )
    knows_python = not stacks.filter(pl.col("phase").is_in([FORWARD, SETUP, OPTIMIZER])).is_empty()
    blocks = blocks.with_columns(
        # Autograd's threads have no Python frames; with Python's frames only, they have no stack.
        phase=pl.when(pl.col("stack_id").is_null() & pl.col("allocated").is_not_null())
        .then(pl.lit(BACKWARD if knows_python else OTHER))
        .otherwise("phase")
    )
    return _add_kind(_add_stretches(blocks))


def _add_stretches(blocks: pl.DataFrame) -> pl.DataFrame:
    """Stretches of one activity: the one in which a block is allocated, and in which released."""
    order = (
        blocks.filter(pl.col("allocated").is_not_null(), pl.col("phase") != COPY)
        .sort("memory", "allocated")
        .select(
            "memory",
            event="allocated",
            stretch=pl.struct("memory", "phase").rle_id(),
            during="phase",
        )
        .sort("event")
    )
    last = order.group_by("memory").agg(final=pl.col("during").last())
    begun = order.rename({"stretch": "own_stretch", "event": "allocated"}).drop("during")
    ended = order.rename({"stretch": "end_stretch", "during": "end_phase"})
    released = (
        blocks.with_row_index("_row")
        .select("_row", "memory", "released")
        .drop_nulls()
        .sort("released")
        .join_asof(ended, left_on="released", right_on="event", by="memory", check_sortedness=False)
        .select("_row", "end_stretch", "end_phase")
    )
    return (
        blocks.with_row_index("_row")
        .join(begun, on=["memory", "allocated"], how="left", maintain_order="left")
        .join(released, on="_row", how="left", maintain_order="left")
        .join(last, on="memory", how="left", maintain_order="left")
        .drop("_row")
    )


def _add_kind(blocks: pl.DataFrame) -> pl.DataFrame:
    phase, end = pl.col("phase"), pl.col("end_phase")
    kept = pl.col("released").is_null()
    same = pl.col("own_stretch") == pl.col("end_stretch")
    rules = [
        (phase.is_null() & pl.col("allocated").is_null(), EARLIER, "high"),
        (same.fill_null(value=False), "temporary", "high"),
        (phase == OPTIMIZER, "optimizer state", "high"),
        ((phase == SETUP) & kept, "parameter", "high"),
        (phase == SETUP, "parameter", "medium"),
        ((phase == BACKWARD), "gradient", "medium"),
        ((phase == FORWARD) & (end == BACKWARD), "activation", "high"),
        ((phase == FORWARD) & kept & (pl.col("final") == FORWARD), "activation", "medium"),
        (phase == FORWARD, "activation", "low"),
        (phase == COPY, "input", "medium"),
    ]
    kind, confidence = pl.lit("other"), pl.lit("low")
    for condition, name, grade in reversed(rules):
        kind = pl.when(condition).then(pl.lit(name)).otherwise(kind)
        confidence = pl.when(condition).then(pl.lit(grade)).otherwise(confidence)
    return blocks.with_columns(kind=kind, confidence=confidence).drop(
        "own_stretch", "end_stretch", "end_phase", "final"
    )
