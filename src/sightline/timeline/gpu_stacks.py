"""What samples of a GPU's instructions say where nothing else was recorded: kernel, line, wait.

Their stacks end in a kernel, a line or an instruction of it, or in why that waited; the layers of a
frame say which (docs/flames.md).
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.algebra.trees import climb_to_rows
from sightline.core.model.run import Run

_TRACE = ["rank", "recording_id"]
# Layers of a GPU's stacks, and the column that what stands there is in.
_PARTS = {
    "kernel": "kernel",
    "gpu_line": "line",
    "instruction": "instruction",
    "stall_class": "stall_class",
    "stall_reason": "stall_reason",
}
OF_GPU = ("device", "gpu_file", *_PARTS)


def read_gpu_samples(run: Run) -> pl.DataFrame:
    """A row a stack of a GPU's samples: kernel, line, instruction, stall_class and stall_reason.

    Each is null where the stack has none; `value` is how many samples end there. No row where no
    such samples were taken.
    """
    return run.once(_read)


def _read(run: Run) -> pl.DataFrame:
    schema = {**dict.fromkeys(_PARTS.values(), pl.String), "value": pl.Int64}
    if not run.rows("stacks") or not run.rows("stack_weights"):
        return pl.DataFrame(schema=schema)
    frames = run.table("frames", [*_TRACE, "frame_id", "layer", "function"])
    stacks = run.table("stacks", [*_TRACE, "stack_id", "parent_id", "frame_id"]).join(
        frames, on=[*_TRACE, "frame_id"], how="left", maintain_order="left"
    )
    weights = run.table("stack_weights", [*_TRACE, "stack_id", "metric", "value"])
    samples = weights.filter(pl.col("metric").cast(pl.String) == "samples").drop("metric")
    parts = [
        _name_parts(mine, samples)
        for mine in stacks.partition_by(_TRACE, maintain_order=True)
        if mine.get_column("layer").cast(pl.String).is_in(list(_PARTS)).any()
    ]
    found = pl.concat(parts) if parts else pl.DataFrame(schema=schema)
    return found.filter(pl.col("kernel").is_not_null()).select(list(schema))


def _name_parts(stacks: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Sampled stacks of one recording, with the nearest frame of each layer at or above them."""
    layers, functions = (stacks.get_column(c).cast(pl.String) for c in ("layer", "function"))
    up = find_rows(stacks.get_column("stack_id"), stacks.get_column("parent_id")).cast(pl.UInt32)
    every = pl.int_range(stacks.height, dtype=pl.UInt32, eager=True)
    named = stacks.select(*_TRACE, "stack_id").with_columns(
        functions.gather(
            climb_to_rows(up, (layers == layer).fill_null(value=False).arg_true(), every)
        ).alias(column)
        for layer, column in _PARTS.items()
    )
    return named.join(samples, on=[*_TRACE, "stack_id"], how="inner", maintain_order="left")
