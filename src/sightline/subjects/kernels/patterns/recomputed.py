"""Forward operators that run a second time inside backward: activation checkpointing."""

from __future__ import annotations

import polars as pl

from sightline.subjects.kernels.patterns.calls import Calls
from sightline.subjects.kernels.patterns.declare import Pattern, keep_nothing

# Autograd gives a number to each forward operator that it records, and backward operators have
# none (c10 GradMode is off there): a number inside a backward node is a forward pass run again.
# Under create_graph backward operators are recorded, too; theirs are other operators or shapes.


def _find_repeated(calls: Calls) -> pl.DataFrame:
    """Calls in backward under an operator that autograd records, whose like ran in forward."""
    table = calls.table
    forward = table.filter(pl.col("node").is_null()).get_column("kind").unique()
    again = pl.col("node").is_not_null() & pl.col("kind").is_in(forward.implode())
    recorded = table.filter(again & pl.col("recorded").is_not_null())
    return keep_nothing(recorded)


PATTERNS = (
    Pattern(
        "recomputed-forward",
        "Forward run again in backward",
        _find_repeated,
        cause="forward operators run a second time inside backward (activation checkpointing), "
        "with the same shapes as in the forward pass",
        fix="where memory suffices, call the blocks without torch.utils.checkpoint; else "
        "checkpoint fewer of them, or keep what is expensive to compute "
        "(create_selective_checkpoint_contexts)",
        source="PyTorch: torch.utils.checkpoint (it trades compute for memory); Chen et al., "
        "Training Deep Nets with Sublinear Memory Cost (2016)",
        rule="recomputed-forward",
        confidence="high",
        with_backward=False,
    ),
)
