"""What blocks of memory hold: parameters, gradients, optimizer state, activations, and the rest.

An allocator does not know. It follows from what the program did when a block was allocated (its
call stack), and from what it did when the block was released:

| kind | allocated | released |
|---|---|---|
| parameter | while a module was made, moved or loaded | later, or never |
| optimizer state | in the optimizer's code | not in the same step of it |
| optimizer state | before the recording | in the optimizer's code |
| gradient | in the backward pass | after it |
| activation | in the forward pass | in the backward pass (less sure: later, or never) |
| input | by a copy outside of all of these | later |
| temporary | anywhere | in the same stretch of the same activity |
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.subjects.memory.allocations import EVENT, follow_allocations
from sightline.subjects.memory.memory_stacks import (
    BACKWARD,
    COPY,
    FORWARD,
    OPTIMIZER,
    OTHER,
    PHASES,
    SETUP,
    describe_stacks,
)
from sightline.timeline.memory_calls import find_memory_calls

EARLIER = "from earlier"  # allocated before the first event
# torch's profiler (torch/profiler/_memory_profiler.py): what autograd's backward functions allocate
# and no parameter has as its gradient.
_OF_BACKWARD = "autograd detail"
KINDS = (
    "parameter", "gradient", "optimizer state", "activation", "input", "temporary", "other", EARLIER
)  # fmt: skip


_KINDS = pl.Enum(KINDS)
_GRADES = pl.Enum(["low", "medium", "high"])


def classify_blocks(run: Run) -> pl.DataFrame:
    """The blocks of a run with phase, kind and confidence (high, medium or low).

    Place and module are those of the stack: `add_places`.
    """
    return run.once(_classify)


def list_unplaced(run: Run) -> pl.DataFrame:
    """Allocations and frees without an address, which no block can be told of.

    As blocks that are never released, those of frees with negative bytes: their sum at any event
    is what was allocated then. The kind is what the recording names them.
    """
    is_free = pl.col("action") == "free"
    of_backward = (pl.col("name") == _OF_BACKWARD).fill_null(value=False)
    named = pl.when(of_backward).then(pl.lit("temporary")).otherwise("name")
    known = named.is_in(KINDS).fill_null(value=False)
    return (
        follow_allocations(run)
        .rare.filter(pl.col("action").is_in(["alloc", "free"]))
        .select(
            "memory",
            "stack_id",
            bytes=pl.when(is_free).then(-pl.col("bytes")).otherwise("bytes"),
            allocated="event",
            released=pl.lit(None, EVENT),
            phase=pl.when(of_backward).then(pl.lit(BACKWARD)).cast(PHASES),
            kind=pl.when(known).then(named).otherwise(pl.lit("other")).cast(_KINDS),
            confidence=pl.when(known).then(pl.lit("high")).otherwise(pl.lit("low")).cast(_GRADES),
        )
    )


def add_places(run: Run, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows with a stack_id, with the place and the module of the stack."""
    stacks = describe_stacks(run).select("stack_id", "place", "module")
    return frame.join(stacks, on="stack_id", how="left", maintain_order="left")


def _classify(run: Run) -> pl.DataFrame:
    stacks = describe_stacks(run).select("stack_id", "phase")
    found = follow_allocations(run)
    blocks = found.blocks.join(stacks, on="stack_id", how="left", maintain_order="left")
    knows_python = not stacks.filter(pl.col("phase").is_in([FORWARD, SETUP, OPTIMIZER])).is_empty()
    # Autograd's threads have no Python frames; with Python's frames only, they have no stack.
    is_recorded = find_memory_calls(run).stack_ids is None
    assumed = pl.lit(BACKWARD if knows_python and is_recorded else OTHER, PHASES)
    unknown = pl.col("stack_id").is_null() & pl.col("allocated").is_not_null()
    blocks = blocks.with_columns(phase=pl.when(unknown).then(assumed).otherwise("phase"))
    ends = found.releases.join(
        stacks.rename({"stack_id": "release_stack_id", "phase": "replaced_in"}),
        on="release_stack_id",
    ).select("released", "replaced_in")
    blocks = blocks.join(ends, on="released", how="left", maintain_order="left")
    parts = [
        _add_kind(_add_stretches(mine, found.events.height))
        for mine in blocks.partition_by("memory", maintain_order=True)
    ]
    return pl.concat(parts) if parts else _add_kind(_add_stretches(blocks, 0))


def _add_stretches(blocks: pl.DataFrame, events: int) -> pl.DataFrame:
    """Stretches of one activity: the one in which a block is allocated, and in which released.

    Of one memory, whose blocks are in the order of their allocations.
    """
    placed = blocks.select("allocated", "phase").filter(
        pl.col("allocated").is_not_null(), pl.col("phase") != COPY
    )
    at = placed.get_column("allocated")
    during = placed.get_column("phase")
    stretch = placed.select(pl.col("phase").rle_id().cast(pl.Int32)).to_series()
    # The stretch that begins or goes on at an event; then the one that each event falls in.
    known = pl.repeat(None, events, dtype=pl.Int32, eager=True).scatter(at, stretch)
    ended = known.forward_fill().gather(blocks.get_column("released"))
    activity = during.filter((stretch != stretch.shift(1)).fill_null(value=True))
    return blocks.with_columns(
        known.gather(blocks.get_column("allocated")).alias("own_stretch"),
        ended.alias("end_stretch"),
        activity.gather(ended).alias("end_phase"),
        final=pl.lit(during[-1] if len(during) else None, PHASES),
    )


def _add_kind(blocks: pl.DataFrame) -> pl.DataFrame:
    phase, end = pl.col("phase"), pl.col("end_phase")
    kept = pl.col("released").is_null()
    same = pl.col("own_stretch") == pl.col("end_stretch")
    early = phase.is_null() & pl.col("allocated").is_null()
    rules = [
        # A state that an optimizer computes anew lets go of the one before it.
        (early & (pl.col("replaced_in") == OPTIMIZER), "optimizer state", "medium"),
        (early, EARLIER, "high"),
        # Without stacks all that is allocated is of one stretch, which tells nothing.
        (same.fill_null(value=False) & (phase != OTHER).any(), "temporary", "high"),
        (phase == OPTIMIZER, "optimizer state", "high"),
        ((phase == SETUP) & kept, "parameter", "high"),
        (phase == SETUP, "parameter", "medium"),
        ((phase == BACKWARD), "gradient", "medium"),
        ((phase == FORWARD) & (end == BACKWARD), "activation", "high"),
        ((phase == FORWARD) & kept & (pl.col("final") == FORWARD), "activation", "medium"),
        (phase == FORWARD, "activation", "low"),
        (phase == COPY, "input", "medium"),
    ]
    # Of the first rule that holds; one byte a block.
    answers = [*((kind, grade) for _, kind, grade in rules), ("other", "low")]
    first = pl.lit(len(rules), pl.UInt8)
    for number, (condition, _, _) in reversed(list(enumerate(rules))):
        first = pl.when(condition).then(pl.lit(number, pl.UInt8)).otherwise(first)
    rule = blocks.select(first).to_series()
    return blocks.with_columns(
        pl.Series("kind", [kind for kind, _ in answers], _KINDS).gather(rule),
        pl.Series("confidence", [grade for _, grade in answers], _GRADES).gather(rule),
    ).drop("own_stretch", "end_stretch", "end_phase", "final", "replaced_in")
