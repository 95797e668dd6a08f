"""Steps of decode, with what the rules about them ask."""

from __future__ import annotations

import polars as pl

from sightline.timeline.engine_steps import DECODE

# A step with fewer launches is of a toy (ours: a model of two layers launches about as many).
LEAST_LAUNCHES = 50


def list_decodes(steps: pl.DataFrame) -> pl.DataFrame:
    """The rows of `engine_steps` that only decode on a device, with idle_ns: nothing runs in it."""
    decodes = steps.filter((pl.col("phase") == DECODE) & pl.col("busy_ns").is_not_null())
    return decodes.with_columns(
        idle_ns=(pl.col("duration_ns") - pl.col("busy_ns")).clip(lower_bound=0)
    )
