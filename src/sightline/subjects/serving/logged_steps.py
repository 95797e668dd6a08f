"""The steps that a server's log tells: what each computed, and for how long, but not when.

A line is stamped to the second, and hundreds of steps lie within one; so the gaps between them are
not known, and nothing rests on their places.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run

LOG = "iteration log"
_COLUMNS = {
    "iteration_prompt_tokens": "prefill_tokens",
    "iteration_prompts": "prefill_requests",
    "iteration_decodes": "decode_requests",
    "iteration_decode_tokens": "decode_tokens",
}


def list_logged_steps(run: Run) -> pl.DataFrame:
    """One row per step, in the log's order; none without such lines.

    Columns: step, phase, prefill_requests, prefill_tokens, decode_requests and decode_tokens (null
    where the log lacks them), duration_ns.
    """
    counters = run.table("counters", ["metric", "source", "value"])
    metric = counters.get_column("metric").cast(pl.String)
    lines = counters.filter(metric == "iteration_ms")
    # What one line says stands at one place of each metric.
    told = {
        column: counters.filter(metric == name).get_column("value")
        for name, column in _COLUMNS.items()
    }
    is_whole = all(values.len() == lines.height for values in told.values())
    return lines.select(
        step=pl.int_range(pl.len(), dtype=pl.Int64),
        phase=pl.col("source").cast(pl.String),
        duration_ns=(pl.col("value") * 1e6).round().cast(pl.Int64),
    ).with_columns(
        (values if is_whole else pl.lit(None)).cast(pl.Int64).alias(column)
        for column, values in told.items()
    )
